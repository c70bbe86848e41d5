/* Measures the kernel and its neighbours: performance counters by call, by instruction and by file. */
#include "attack.h"

#include <linux/perf_event.h>

static const char *const kinds[] = {"hardware", "software", "tracepoint", "cache", "raw", "breakpoint", "other"};

static long open_counter(unsigned kind, int user_only, pid_t pid, int cpu, unsigned long flags) {
    struct perf_event_attr attr = {
        .type = kind,
        .size = sizeof attr,
        .disabled = 1,
        .exclude_kernel = user_only,
        .exclude_hv = user_only,
        .sample_period = 1000,
    };
    return syscall(SYS_perf_event_open, &attr, pid, cpu, -1, flags);
}

/* Instructions that are the kernel's own, or that it lends to those who measure. */
static void instructions(void) {
#if defined(__x86_64__)
    unsigned low, high;
    for (unsigned counter = 0; counter < 4; counter++)
        in_child(named("instruction rdpmc %u", counter),
                 ({ __asm__ volatile("rdpmc" : "=a"(low), "=d"(high) : "c"(counter)); 0; }));
    in_child("instruction rdpmc fixed", ({ __asm__ volatile("rdpmc" : "=a"(low), "=d"(high) : "c"(1U << 30)); 0; }));
    in_child("instruction rdmsr", ({ __asm__ volatile("rdmsr" : "=a"(low), "=d"(high) : "c"(0x10)); 0; }));
    in_child("instruction in", ({ __asm__ volatile("inb %%dx, %%al" : "=a"(low) : "d"(0x70)); 0; }));
    in_child("instruction cli", ({ __asm__ volatile("cli"); 0; }));
#elif defined(__aarch64__)
    unsigned long value;
    in_child("instruction mrs cycles", ({ __asm__ volatile("mrs %0, pmccntr_el0" : "=r"(value)); 0; }));
    in_child("instruction mrs counter", ({ __asm__ volatile("mrs %0, pmevcntr0_el0" : "=r"(value)); 0; }));
#endif
}

int main(void) {
    for (unsigned kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) {
        in_child(named("open %s of itself", kinds[kind]), open_counter(kind, 0, 0, -1, 0));
        in_child(named("open %s of itself, user only", kinds[kind]), open_counter(kind, 1, 0, -1, 0));
        in_child(named("open %s of its parent, user only", kinds[kind]), open_counter(kind, 1, getppid(), -1, 0));
        in_child(named("open %s of pid 1", kinds[kind]), open_counter(kind, 1, 1, -1, 0));
        in_child(named("open %s of a processor", kinds[kind]), open_counter(kind, 0, -1, 0, 0));
        in_child(named("open %s of a cgroup", kinds[kind]), open_counter(kind, 1, 0, 0, PERF_FLAG_PID_CGROUP));
    }
    in_child("open without attributes", syscall(SYS_perf_event_open, NULL, 0, -1, -1, PERF_FLAG_FD_CLOEXEC));
    instructions();
    in_child("file /dev/cpu/0/msr", open("/dev/cpu/0/msr", O_RDONLY));
    in_child("file /sys events", open("/sys/bus/event_source/devices/cpu/rdpmc", O_RDWR));
    in_child("file tracing", open("/sys/kernel/tracing/trace_pipe", O_RDONLY));
    in_child("file perf_event_paranoid", open("/proc/sys/kernel/perf_event_paranoid", O_WRONLY));
    return 0;
}
