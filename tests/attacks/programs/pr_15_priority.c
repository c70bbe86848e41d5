/* Asks for more of the processor than others get: by priority, by class, by affinity, by timers. */
#include "attack.h"
#include <linux/types.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>

struct attributes {
    __u32 size, policy;
    __u64 flags;
    __s32 nice;
    __u32 priority;
    __u64 runtime, deadline, period;
    __u32 least, most;
};

static long with_attributes(int pid, unsigned policy, int nice_, unsigned priority, unsigned long long flags) {
    struct attributes wanted = {.size = sizeof wanted, .policy = policy, .nice = nice_, .priority = priority,
        .flags = flags,
                                .runtime = 10000000, .deadline = 20000000, .period = 20000000,
                                .least = 1024, .most = 1024};
    return syscall(SYS_sched_setattr, pid, &wanted, 0);
}

static long scheduler(int pid, int policy, int priority) {
    return sched_setscheduler(pid, policy, &(struct sched_param){priority});
}

static long affinity(int pid, int first, int last) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int i = first; i <= last; i++) CPU_SET(i, &set);
    return sched_setaffinity(pid, sizeof set, &set);
}

static long ioprio(int which, int who, int class_, int level) {
    return syscall(SYS_ioprio_set, which, who, class_ << 13 | level);
}

static const char *clipped(void) {
    cpu_set_t set;
    long online = sysconf(_SC_NPROCESSORS_CONF);
    if (sched_getaffinity(0, sizeof set, &set) == -1) return errno_name(errno);
    return CPU_COUNT(&set) <= online ? "clipped" : named("%d of %ld", CPU_COUNT(&set), online);
}

static long autogroup(const char *value) {
    int file = open("/proc/self/autogroup", O_WRONLY);
    if (file == -1) return -1;
    long result = write(file, value, strlen(value));
    int error = errno;
    close(file);
    errno = error;
    return result < 0 ? -1 : 0;
}

int main(void) {
    int pids[] = {0, 1};
    for (int i = 0; i < 2; i++) {
        int pid = pids[i];
        const char *whom = pid ? "pid 1" : "itself";
        for (int level = -20; level < 0; level += 19) {
            attempt(named("nice %d for %s", level, whom), setpriority(PRIO_PROCESS, (id_t)pid, level));
            attempt(named("sched_setattr nice %d for %s", level, whom), with_attributes(pid, SCHED_OTHER, level, 0,
                0));
        }
        attempt(named("SCHED_FIFO for %s", whom), scheduler(pid, SCHED_FIFO, 1));
        attempt(named("SCHED_FIFO 99 for %s", whom), scheduler(pid, SCHED_FIFO, 99));
        attempt(named("SCHED_RR for %s", whom), scheduler(pid, SCHED_RR, 1));
        attempt(named("sched_setattr SCHED_FIFO for %s", whom), with_attributes(pid, SCHED_FIFO, 0, 1, 0));
        attempt(named("SCHED_DEADLINE for %s", whom), with_attributes(pid, 6 /* SCHED_DEADLINE */, 0, 0, 0));
        attempt(named("real-time input and output for %s", whom), ioprio(1, pid, 1, 0));
    }
    /* Worse is allowed for itself, but it would starve the one who watches it. */
    attempt("nice 19 for pid 1", setpriority(PRIO_PROCESS, 1, 19));
    /* A group without a number here is that of whoever called from outside: then it is told, and left alone. */
    if (getpgrp() == 0) report("nice 19 for its group", "is the caller's");
    else attempt("nice 19 for its group", setpriority(PRIO_PGRP, 0, 19));
    attempt("nice 19 for the group of pid 1", setpriority(PRIO_PGRP, 1, 19));
    attempt("nice 19 for its user", setpriority(PRIO_USER, 0, 19));
    attempt("SCHED_IDLE for pid 1", scheduler(1, SCHED_IDLE, 0));
    attempt("SCHED_BATCH for pid 1", scheduler(1, SCHED_BATCH, 0));
    attempt("one processor for pid 1", affinity(1, 0, 0));
    attempt("idle input and output for pid 1", ioprio(1, 1, 3, 0));
    attempt("idle input and output for the group of pid 1", ioprio(2, 1, 3, 0));
    attempt("idle input and output for its user", ioprio(3, 0, 3, 0));
    attempt("nice -20 for its user", setpriority(PRIO_USER, 0, -20));
    if (getpgrp() != 0) attempt("nice -20 for its group", setpriority(PRIO_PGRP, 0, -20));
    attempt("nice by the old call", nice(-20));

    attempt("processors that do not exist", affinity(0, 512, 1023));
    affinity(0, 0, 1023);
    report("all processors", clipped());

    attempt("autogroup -20", autogroup("-20"));
    attempt("timer slack", prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0));
    attempt("core scheduling", prctl(62 /* PR_SCHED_CORE */, 1 /* create */, 0, 0, 0));
    attempt("core scheduling with pid 1", prctl(62, 3 /* share from */, 1, 0, 0));
    attempt("memory policy", syscall(SYS_set_mempolicy, 0, NULL, 0));
    /* What came of all that. */
    report("policy at the end", named("%d", sched_getscheduler(0)));
    errno = 0;
    int level = getpriority(PRIO_PROCESS, 0);
    report("nice at the end", level >= 0 ? "not above others" : named("%d", level));
}
