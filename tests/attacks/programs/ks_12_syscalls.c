/* Makes every system call from 0 to 1023, each with several kinds of arguments, and those that the filter judges by
 * their arguments with more of them; each in a child of its own. Prints who answers:
 * `answer<TAB>NUMBER<TAB>ARGUMENTS<TAB>ANSWER`.
 *
 *   kernel    the call got past the filter: any result but ENOSYS, a death, or a sleep
 *   ENOSYS    so say the filter or the kernel, no matter which
 *   EPERM, EINVAL, EOPNOTSUPP, done   so says the filter; `done` is success without doing anything
 *   killed    the filter ends the process
 *
 * Whether it was the filter that answered is asked first: under a second filter that says TRACE to the very instruction
 * that makes the calls. Without a tracer TRACE answers ENOSYS, so nothing is ever done; but the sandbox's filter, where
 * it refuses, comes before it. Then the call is made for real, and must be answered the same.
 *
 * Started with `quiet` it asks only the first question, which is harmless anywhere. Started with numbers, it makes
 * these calls for real and nothing else, to show what the kernel has of them; for that it may run without a sandbox. */
#include "attack.h"

#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#define NUMBERS 1024
#define KINDS 4
#define LOOK_EVERY_MS 2
#define LOOKS 2500
/* With few bits, because the filter takes some arguments for flags. */
#define PAGE 0x00200000L
/* No result of any call: it has not been made yet, it has not come back yet. */
#define UNMADE 0x5a5a5a5a
#define UNDER_WAY 0x6b6b6b6b
#define SPARE 9 /* a descriptor of an empty file */

struct trial {
    int number;
    const char *label;
    long args[6];
};

/* For every number. */
static const struct trial kinds[KINDS] = {
    {-1, "zeros", {0, 0, 0, 0, 0, 0}},
    {-1, "ones", {-1, -1, -1, -1, -1, -1}},
    {-1, "pointers", {PAGE, PAGE + 512, PAGE + 1024, PAGE + 1536, PAGE + 2048, PAGE + 2560}},
    {-1, "descriptor", {SPARE, PAGE, 64, 0, 0, 0}},
};

/* For those whose arguments decide. None would do harm if it were let through. */
#define GARBAGE 0x7abc00000000L
static const struct trial special[] = {
    {SYS_mmap, "anonymous", {0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0}},
    {SYS_mmap, "MAP_HUGETLB", {0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0}},
    {SYS_memfd_create, "plain", {PAGE, 0}},
    {SYS_memfd_create, "MFD_HUGETLB", {PAGE, 4}},
    {SYS_ioctl, "TCGETS", {SPARE, TCGETS, PAGE}},
    {SYS_ioctl, "TIOCSTI", {SPARE, TIOCSTI, PAGE}},
    {SYS_ioctl, "TIOCSTI, garbage above", {SPARE, GARBAGE | TIOCSTI, PAGE}},
    {SYS_ioctl, "TIOCLINUX", {SPARE, TIOCLINUX, PAGE}},
    {SYS_ioctl, "TIOCSETD", {SPARE, TIOCSETD, PAGE}},
    {SYS_ioctl, "TIOCCONS", {SPARE, TIOCCONS, 0}},
    {SYS_fcntl, "F_GETFD", {SPARE, F_GETFD, 0}},
    {SYS_fcntl, "F_SETLEASE", {SPARE, F_SETLEASE, F_RDLCK}},
    {SYS_fcntl, "F_SETLEASE, garbage above", {SPARE, GARBAGE | F_SETLEASE, F_RDLCK}},
    {SYS_fcntl, "F_NOTIFY", {SPARE, F_NOTIFY, 1}},
    {SYS_fcntl, "F_SETDELEG", {SPARE, 1040, PAGE}},
    {SYS_socket, "unix", {AF_UNIX, SOCK_STREAM, 0}},
    {SYS_socket, "tcp", {AF_INET, SOCK_STREAM, 0}},
    {SYS_socket, "udp", {AF_INET, SOCK_DGRAM, IPPROTO_UDP}},
    {SYS_socket, "tcp6", {AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP}},
    {SYS_socket, "netlink route", {AF_NETLINK, SOCK_RAW, NETLINK_ROUTE}},
    {SYS_socket, "netlink netfilter", {AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER}},
    {SYS_socket, "raw", {AF_INET, SOCK_RAW, IPPROTO_ICMP}},
    {SYS_socket, "icmp", {AF_INET, SOCK_DGRAM, IPPROTO_ICMP}},
    {SYS_socket, "sctp", {AF_INET, SOCK_STREAM, IPPROTO_SCTP}},
    {SYS_socket, "mptcp", {AF_INET, SOCK_STREAM, 262}},
    {SYS_socket, "packet", {AF_PACKET, SOCK_DGRAM, 0}},
    {SYS_socket, "alg", {AF_ALG, SOCK_SEQPACKET, 0}},
    {SYS_socket, "vsock", {AF_VSOCK, SOCK_STREAM, 0}},
    {SYS_socket, "vsock, garbage above", {GARBAGE | AF_VSOCK, SOCK_STREAM, 0}},
    {SYS_socketpair, "unix", {AF_UNIX, SOCK_STREAM, 0, PAGE}},
    {SYS_socketpair, "tipc", {AF_TIPC, SOCK_STREAM, 0, PAGE}},
    {SYS_setsockopt, "TCP_NODELAY", {SPARE, SOL_TCP, TCP_NODELAY, PAGE, 4}},
    {SYS_setsockopt, "TCP_ULP", {SPARE, SOL_TCP, TCP_ULP, PAGE, 4}},
    {SYS_clone, "child", {SIGCHLD}},
    {SYS_clone, "CLONE_NEWUSER", {CLONE_NEWUSER | SIGCHLD}},
    {SYS_clone, "CLONE_NEWNS", {CLONE_NEWNS | SIGCHLD}},
    {SYS_clone, "CLONE_NEWNET, garbage above", {GARBAGE | CLONE_NEWNET | SIGCHLD}},
    {SYS_personality, "query", {0xffffffff}},
    {SYS_personality, "ADDR_NO_RANDOMIZE", {ADDR_NO_RANDOMIZE}},
    {SYS_prctl, "PR_GET_DUMPABLE", {PR_GET_DUMPABLE}},
    {SYS_prctl, "PR_SET_MM", {PR_SET_MM, PR_SET_MM_BRK, PAGE}},
    {SYS_prctl, "PR_SCHED_CORE", {62}},
    {SYS_seccomp, "another filter", {SECCOMP_SET_MODE_FILTER, 0, 0}},
    {SYS_seccomp, "with a listener", {SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, 0}},
    {SYS_setpriority, "itself", {PRIO_PROCESS, 0, 19}},
    {SYS_setpriority, "pid 1", {PRIO_PROCESS, 1, 19}},
    {SYS_setpriority, "its user", {PRIO_USER, 0, 19}},
    {SYS_setpriority, "its group", {PRIO_PGRP, 0, 19}},
    {SYS_ioprio_set, "itself", {1, 0, 3 << 13}},
    {SYS_ioprio_set, "pid 1", {1, 1, 3 << 13}},
    {SYS_ioprio_set, "its user", {3, 0, 3 << 13}},
    {SYS_sched_setparam, "pid 1", {1, PAGE}},
    {SYS_sched_setscheduler, "pid 1", {1, SCHED_IDLE, PAGE}},
    {SYS_sched_setattr, "pid 1", {1, PAGE, 0}},
    {SYS_sched_setaffinity, "pid 1", {1, 8, PAGE}},
    {SYS_prlimit64, "itself", {0, 4, 0, PAGE}},
    {SYS_prlimit64, "pid 1", {1, 4, 0, PAGE}},
    {SYS_prlimit64, "pid 1, garbage above", {GARBAGE | 1, 4, 0, PAGE}},
    {SYS_ptrace, "nobody", {16, 0x3fffff, 0, 0}},
    {SYS_ptrace, "pid 1", {16, 1, 0, 0}},
    {SYS_process_vm_readv, "nobody", {0x3fffff, PAGE, 0, PAGE, 0, 0}},
    {SYS_process_vm_readv, "pid 1", {1, PAGE, 0, PAGE, 0, 0}},
    {SYS_process_vm_writev, "pid 1", {1, PAGE, 0, PAGE, 0, 0}},
};
#define SPECIAL (int)(sizeof special / sizeof *special)
#define TRIALS (NUMBERS * KINDS + SPECIAL)

/* What each trial was answered, written by children. */
static long *said;

static struct trial trial(int index) {
    if (index >= NUMBERS * KINDS) return special[index - NUMBERS * KINDS];
    struct trial trial = kinds[index % KINDS];
    trial.number = index / KINDS;
    return trial;
}

/* One instruction, so that a filter can tell its calls from all others by where they come from. */
extern const char after_call[];
__attribute__((noinline)) static long call(struct trial t) {
    long result;
    register long r10 __asm__("r10") = t.args[3];
    register long r8 __asm__("r8") = t.args[4];
    register long r9 __asm__("r9") = t.args[5];
    __asm__ volatile("syscall\n.globl after_call\nafter_call:"
                     : "=a"(result)
                     : "a"((long)t.number), "D"(t.args[0]), "S"(t.args[1]), "d"(t.args[2]), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

static void trace_calls_from_there(void) {
    const unsigned long at = (unsigned long)after_call;
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, instruction_pointer)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)at, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, instruction_pointer) + 4),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)(at >> 32), 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == -1) _exit(98);
}

static const char *word(long result) {
    switch (result) {
    case -ENOSYS: return "ENOSYS";
    case -EPERM: return "EPERM";
    case -EINVAL: return "EINVAL";
    case -EOPNOTSUPP: return "EOPNOTSUPP";
    case 0: return "done";
    default: return "kernel";
    }
}

/* What the filter alone says; a call that kills takes only its own child with it. */
static void ask_the_filter(const char *answers[TRIALS]) {
    for (int next = 0; next < TRIALS;) {
        int status = 0;
        pid_t pid = fork();
        if (pid == 0) {
            trace_calls_from_there();
            for (int i = next; i < TRIALS; i++) said[i] = call(trial(i));
            _exit(0);
        }
        waitpid(pid, &status, 0);
        if (WIFEXITED(status) && WEXITSTATUS(status) != 0) exit(97);
        for (; next < TRIALS && said[next] != UNMADE; next++) answers[next] = word(said[next]);
        /* Of another signal only where the kernel asks no filter: it plants uretprobe and uprobe itself. */
        if (WIFSIGNALED(status)) answers[next++] = WTERMSIG(status) == SIGSYS ? "killed" : "kernel";
    }
}

/* Makes one call in a child. */
static pid_t begin(int index) {
    pid_t pid = fork();
    if (pid != 0) return pid;
    setpgid(0, 0);
    pid_t self = getpid();
    said[index] = UNDER_WAY;
    long result = call(trial(index));
    /* A child of this child came back as well, perhaps on the same stack. */
    if (getpid() == self) said[index] = result;
    _exit(0);
}

/* Asleep or stopped, as opposed to running or waiting for a processor. */
static int asleep(pid_t pid) {
    char text[512] = "", *end;
    int file = open(named("/proc/%d/stat", pid), O_RDONLY);
    if (file == -1 || read(file, text, sizeof text - 1) <= 0) text[0] = 0;
    close(file);
    end = strrchr(text, ')');
    return end && strchr("SDTt", end[2]) != NULL;
}

static const char *end(int index, pid_t pid) {
    volatile long *result = &said[index];
    int status = 0, nights = 0, over = 0;
    struct pollfd handle = {(int)syscall(SYS_pidfd_open, pid, 0), POLLIN, 0};
    for (int look = 0; look < LOOKS && nights < 2 && !over; look++) {
        over = poll(&handle, 1, LOOK_EVERY_MS) == 1;
        nights = *result == UNDER_WAY && asleep(pid) ? nights + 1 : 0;
    }
    close(handle.fd);
    /* With its whole group: the call may have made it a child. */
    kill(-pid, SIGKILL);
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    if (*result == UNMADE) return "never made";
    if (*result != UNDER_WAY) return word(*result);
    return over && WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS ? "killed" : "kernel";
}

static void ask_for_real(const char *answers[TRIALS]) {
    pid_t pids[KINDS];
    for (int first = 0; first < TRIALS; first += KINDS) {
        for (int i = 0; i < KINDS && first + i < TRIALS; i++) pids[i] = begin(first + i);
        for (int i = 0; i < KINDS && first + i < TRIALS; i++) answers[first + i] = end(first + i, pids[i]);
    }
}

static void forget(void) {
    for (int i = 0; i < TRIALS; i++) said[i] = UNMADE;
}

static void print(int index, const char *answer) {
    printf("answer\t%d\t%s\t%s\n", trial(index).number, trial(index).label, answer);
}

static int everything(int quiet) {
    static const char *filter[TRIALS], *real[TRIALS];
    forget();
    ask_the_filter(filter);
    forget();
    if (!quiet) ask_for_real(real);
    for (int i = 0; i < TRIALS; i++) {
        const char *answer = filter[i];
        if (!quiet && !strcmp(answer, "ENOSYS")) {
            /* Not the filter, or the filter with this very word. */
            answer = strcmp(real[i], "ENOSYS") ? "kernel" : "ENOSYS";
        } else if (!quiet && strcmp(answer, real[i])) {
            answer = named("%s, but really %s", answer, real[i]);
        }
        print(i, answer);
    }
    return 0;
}

static int these(int count, char **numbers) {
    forget();
    for (int i = 0; i < count; i++) {
        int number = atoi(numbers[i]);
        if (number < 0 || number >= NUMBERS) return 95;
        for (int kind = 0; kind < KINDS; kind++) {
            int index = number * KINDS + kind;
            print(index, end(index, begin(index)));
        }
    }
    return 0;
}

int main(int argc, char **argv) {
    const int ours = PROT_READ | PROT_WRITE, new = MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
    said = mmap(NULL, TRIALS * sizeof *said, ours, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    void *page = mmap((void *)PAGE, 4096, ours, MAP_PRIVATE | new, -1, 0);
    int empty = open("/tmp", O_TMPFILE | O_RDWR, 0600);
    if (said == MAP_FAILED || page == MAP_FAILED || dup2(empty, SPARE) == -1) return 96;
    if (argc == 1 || !strcmp(argv[1], "quiet")) return everything(argc > 1);
    return these(argc - 1, argv + 1);
}
