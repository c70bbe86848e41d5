/* Makes system calls that a sandbox lets through, with hostile arguments, for some seconds.
 *
 *     fuzz SEED SECONDS < CALLS        a line `NUMBER NAME` per call
 *
 * Children make the calls, and what dies or hangs is replaced. Every second, and at the end, one line says how
 * far it is: calls made, children that died, children that hung. The same seed makes the same calls in each
 * child, up to where the kernel answers differently.
 *
 * Left out is what would only end or stop the child, or the program itself: exit, exit_group, pause, rt_sigsuspend,
 * rt_sigreturn; and signals and limits for the parent of the children. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WORKERS 4
#define CALLS_OF_A_WORKER 3000
#define HUNG_MS 150
#define MOST 512

/* What each argument is taken for, by name of the call:
 * f descriptor, p memory, N memory or nothing, P path, x attribute, s size, S pages, z size of a set of signals,
 * o offset, d process, u user, g signal, c small number, i any number, l flags, M protection of a mapping,
 * t a short time, k clock, D family, T type and v level of a socket, O option, a address, A its length. */
static const struct {
    const char *name, *kinds;
} shapes[] = {
    {"accept", "fpp"}, {"accept4", "fppl"}, {"access", "Pi"}, {"alarm", "i"}, {"arch_prctl", "ip"}, {"bind", "faA"},
    {"brk", "p"}, {"capget", "pp"}, {"capset", "pp"}, {"chdir", "P"}, {"chmod", "Pi"}, {"chown", "Puu"},
    {"clock_getres", "kp"}, {"clock_gettime", "kp"}, {"clock_nanosleep", "kctp"}, {"clone", "lppip"}, {"close", "f"},
    {"close_range", "ffl"}, {"connect", "faA"}, {"copy_file_range", "fpfpsl"}, {"creat", "Pi"}, {"dup", "f"},
    {"dup2", "ff"}, {"dup3", "ffl"}, {"epoll_create", "i"}, {"epoll_create1", "l"}, {"epoll_ctl", "fcfp"},
    {"epoll_pwait", "fpccpz"}, {"epoll_pwait2", "fpctpz"}, {"epoll_wait", "fpcc"}, {"eventfd", "i"},
    {"eventfd2", "il"}, {"execve", "PNN"}, {"execveat", "fPNNl"}, {"faccessat", "fPi"}, {"faccessat2", "fPil"},
    {"fadvise64", "foii"}, {"fallocate", "fcoo"}, {"fchdir", "f"}, {"fchmod", "fi"}, {"fchmodat", "fPi"},
    {"fchmodat2", "fPil"}, {"fchown", "fuu"}, {"fchownat", "fPuul"}, {"fcntl", "fcp"}, {"fdatasync", "f"},
    {"fgetxattr", "fxps"}, {"flistxattr", "fps"}, {"flock", "fc"}, {"fremovexattr", "fx"}, {"fsetxattr", "fxpsc"},
    {"fstat", "fp"}, {"fstatfs", "fp"}, {"fsync", "f"}, {"ftruncate", "fo"}, {"futex", "pcitpi"},
    {"futex_requeue", "plii"}, {"futex_wait", "piiltk"}, {"futex_waitv", "pcltk"}, {"futex_wake", "piil"},
    {"futimesat", "fPp"}, {"get_robust_list", "dpp"}, {"getcpu", "ppp"}, {"getcwd", "ps"}, {"getdents", "fps"},
    {"getdents64", "fps"}, {"getgroups", "cp"}, {"getitimer", "cp"}, {"getpeername", "fpp"}, {"getpgid", "d"},
    {"getpriority", "cd"}, {"getrandom", "psc"}, {"getresgid", "ppp"}, {"getresuid", "ppp"}, {"getrlimit", "cp"},
    {"getrusage", "cp"}, {"getsid", "d"}, {"getsockname", "fpp"}, {"getsockopt", "fvOpp"}, {"gettimeofday", "pp"},
    {"getxattr", "Pxps"}, {"getxattrat", "fPlxps"}, {"inotify_add_watch", "fPl"}, {"inotify_init1", "l"},
    {"inotify_rm_watch", "fc"}, {"ioctl", "fip"}, {"ioprio_get", "cd"}, {"ioprio_set", "cdi"}, {"kill", "dg"},
    {"landlock_add_rule", "fcpc"}, {"landlock_create_ruleset", "pzc"}, {"landlock_restrict_self", "fc"},
    {"lchown", "Puu"}, {"lgetxattr", "Pxps"}, {"link", "PP"}, {"linkat", "fPfPl"}, {"listen", "fc"},
    {"listxattr", "Pps"}, {"listxattrat", "fPlps"}, {"llistxattr", "Pps"}, {"lremovexattr", "Px"}, {"lseek", "foc"},
    {"lsetxattr", "Pxpsc"}, {"lstat", "Pp"}, {"madvise", "pSi"}, {"map_shadow_stack", "pSl"}, {"membarrier", "lcc"},
    {"memfd_create", "Pl"}, {"mincore", "pSp"}, {"mkdir", "Pi"}, {"mkdirat", "fPi"}, {"mknod", "Pii"},
    {"mknodat", "fPii"}, {"mlock", "pS"}, {"mlock2", "pSc"}, {"mlockall", "c"}, {"mmap", "pSMlfo"},
    {"mprotect", "pSc"}, {"mq_getsetattr", "fpp"}, {"mq_notify", "fp"}, {"mq_open", "Plip"},
    {"mq_timedreceive", "fpspt"}, {"mq_timedsend", "fpsit"}, {"mq_unlink", "P"}, {"mremap", "pSScp"},
    {"mseal", "pSc"}, {"msgctl", "ccp"}, {"msgget", "cl"}, {"msgrcv", "cpscl"}, {"msgsnd", "cpsl"}, {"msync", "pSc"},
    {"munlock", "pS"}, {"munlockall", ""}, {"munmap", "pS"}, {"nanosleep", "tp"}, {"newfstatat", "fPpl"},
    {"open", "Pli"}, {"openat", "fPli"}, {"openat2", "fPps"}, {"personality", "i"}, {"pidfd_open", "dl"},
    {"pidfd_send_signal", "fgpl"}, {"pipe", "p"}, {"pipe2", "pl"}, {"pkey_alloc", "cc"}, {"pkey_free", "c"},
    {"pkey_mprotect", "pScc"}, {"poll", "pcc"}, {"ppoll", "pctpz"}, {"prctl", "cpppp"}, {"pread64", "fpso"},
    {"preadv", "fpcoo"}, {"preadv2", "fpcool"}, {"prlimit64", "dcpp"}, {"process_vm_readv", "dpcpcc"},
    {"process_vm_writev", "dpcpcc"}, {"pselect6", "cppptp"}, {"ptrace", "idpp"}, {"pwrite64", "fpso"},
    {"pwritev", "fpcoo"}, {"pwritev2", "fpcool"}, {"read", "fps"}, {"readahead", "fos"}, {"readlink", "Pps"},
    {"readlinkat", "fPps"}, {"readv", "fpc"}, {"recvfrom", "fpslpp"}, {"recvmmsg", "fpclt"}, {"recvmsg", "fpl"},
    {"removexattr", "Px"}, {"removexattrat", "fPlx"}, {"rename", "PP"}, {"renameat", "fPfP"}, {"renameat2", "fPfPl"},
    {"restart_syscall", ""}, {"rmdir", "P"}, {"rseq", "pscc"}, {"rt_sigaction", "gppz"}, {"rt_sigpending", "pz"},
    {"rt_sigprocmask", "cppz"}, {"rt_sigqueueinfo", "dgp"}, {"rt_sigtimedwait", "pptz"},
    {"rt_tgsigqueueinfo", "ddgp"}, {"sched_getaffinity", "dsp"}, {"sched_getattr", "dpsc"}, {"sched_getparam", "dp"},
    {"sched_getscheduler", "d"}, {"sched_rr_get_interval", "dp"}, {"sched_setaffinity", "dsp"},
    {"sched_setattr", "dpc"}, {"sched_setparam", "dp"}, {"sched_setscheduler", "dcp"}, {"seccomp", "clp"},
    {"select", "cppppt"}, {"semctl", "cccp"}, {"semget", "ccl"}, {"semop", "cpc"}, {"semtimedop", "cpct"},
    {"sendfile", "ffps"}, {"sendmmsg", "fpcl"}, {"sendmsg", "fpl"}, {"sendto", "fpslaA"}, {"set_robust_list", "ps"},
    {"set_tid_address", "p"}, {"setfsgid", "u"}, {"setfsuid", "u"}, {"setgid", "u"}, {"setgroups", "cp"},
    {"setitimer", "ctp"}, {"setpgid", "dd"}, {"setpriority", "cdc"}, {"setregid", "uu"}, {"setresgid", "uuu"},
    {"setresuid", "uuu"}, {"setreuid", "uu"}, {"setrlimit", "cp"}, {"setsockopt", "fvOpA"}, {"setuid", "u"},
    {"setxattr", "Pxpsc"}, {"setxattrat", "fPlxps"}, {"shmat", "cpc"}, {"shmctl", "ccp"}, {"shmdt", "p"},
    {"shmget", "csl"}, {"shutdown", "fc"}, {"sigaltstack", "pp"}, {"signalfd", "fpz"}, {"signalfd4", "fpzl"},
    {"socket", "DTc"}, {"socketpair", "DTcp"}, {"stat", "Pp"}, {"statfs", "Pp"}, {"statx", "fPllp"},
    {"symlink", "PP"}, {"symlinkat", "PfP"}, {"sync_file_range", "fool"}, {"sysinfo", "p"}, {"tgkill", "ddg"},
    {"timer_create", "kpp"}, {"timer_delete", "c"}, {"timer_getoverrun", "c"}, {"timer_gettime", "cp"},
    {"timer_settime", "cctp"}, {"timerfd_create", "kl"}, {"timerfd_gettime", "fp"}, {"timerfd_settime", "fctp"},
    {"times", "p"}, {"tkill", "dg"}, {"truncate", "Po"}, {"umask", "i"}, {"uname", "p"}, {"unlink", "P"},
    {"unlinkat", "fPl"}, {"uprobe", ""}, {"uretprobe", ""}, {"utime", "Pp"}, {"utimensat", "fPpl"}, {"utimes", "Pp"},
    {"wait4", "dplp"}, {"waitid", "cdplp"}, {"write", "fps"}, {"writev", "fpc"},
};

static const char *const never[] = {"exit", "exit_group", "pause", "rt_sigsuspend", "rt_sigreturn"};
/* Calls whose first arguments may name the parent, who must live on. */
static const char *const aimed[] = {"kill",      "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "prlimit64",
                                    "pidfd_open", "ptrace", "process_vm_writev"};

static struct call {
    int number, aimed;
    char name[40];
    const char *kinds;
} calls[MOST];
static int known;

/* Written by workers, read by the parent; a worker may well overwrite it. */
static struct progress {
    volatile uint64_t made;
    volatile int number;
} *progress;

static pid_t parent;
static uint64_t state;

static uint64_t random_word(void) {
    uint64_t z = (state += 0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

static uint64_t below(uint64_t bound) {
    return random_word() % bound;
}

static int once_in(unsigned times) {
    return below(times) == 0;
}

/* Memory that calls are pointed at: two pages that can be written, one that cannot, and a hole. */
#define PAGE 4096UL
static unsigned char *arena;
static int pool[64], pooled;

static const char *const paths[] = {
    ".", "..", "/", "a", "b", "c/d", "e/../f", "/tmp", "/tmp/x", "/dev/null", "/dev/zero", "/dev/full",
    "/dev/urandom", "/dev/shm", "/dev/shm/y", "/proc/self", "/proc/self/fd", "/proc/self/fd/0", "/proc/self/exe",
    "/proc/self/maps", "/proc/self/mem", "/proc/self/ns/net", "/proc/self/task", "/proc/self/cwd/a", "/proc/1",
    "/proc/1/status", "/proc/sys", "/proc/meminfo", "/usr", "/usr/bin/true", "/etc/passwd", "/workspace", "/run",
    "/run/z", "", "user.x", "trusted.x", "security.capability", "system.posix_acl_access", "\xff\xfe", "//////a",
    "/proc/self/root/proc/self/root/tmp",
};

static uint64_t number(void) {
    static const uint64_t odd[] = {
        0, 1, 2, 3, 4, 5, 7, 8, 10, 12, 16, 31, 32, 63, 64, 100, 127, 128, 255, 256, 511, 512, 1000, 1023, 1024,
        4095, 4096, 4097, 65535, 65536, 1 << 20, 0x7ffffffe, 0x7fffffff, 0x80000000, 0x80000001, 0xfffffffe,
        0xffffffff, 0x100000000, 0x7ffffffffffff000, 0x7fffffffffffffff, 0x8000000000000000, 0xfffffffffffff000,
        -1, -2, -22, -4095, -100 /* AT_FDCWD */,
    };
    switch (below(5)) {
    case 0: return random_word();
    case 1: return below(64);
    case 2: return (uint64_t)1 << below(64);
    default: return odd[below(sizeof odd / sizeof *odd)];
    }
}

static uint64_t flags(void) {
    uint64_t bits = 0;
    for (uint64_t n = below(4); n > 0; n--) bits |= (uint64_t)1 << below(once_in(8) ? 64 : 24);
    return once_in(6) ? number() : bits;
}

static uint64_t descriptor(void) {
    if (once_in(12)) return number();
    return (uint64_t)(once_in(10) ? AT_FDCWD : pool[below((uint64_t)pooled)]);
}

static uint64_t process(void) {
    uint64_t all[] = {0, (uint64_t)getpid(), 1, (uint64_t)getpid() + 1, (uint64_t)-getpid(), 0x3fffff};
    return once_in(8) ? number() : all[below(6)];
}

static uint64_t memory(void) {
    switch (below(16)) {
    case 0: return 0;
    case 1: return number();
    case 2: return 0xffffffff81000000 + below(1 << 20);     /* the kernel's */
    case 3: return 0x0000800000000000 + below(1 << 20);     /* nobody's */
    case 4: return (uint64_t)arena + 3 * PAGE - below(16);  /* ends in a hole */
    case 5: return (uint64_t)arena + 2 * PAGE + below(PAGE); /* cannot be written */
    case 6: return (uint64_t)arena + 3 * PAGE;              /* the hole */
    default: return (uint64_t)arena + below(PAGE) / 8 * 8;
    }
}

static uint64_t path(void) {
    static char copies[4][5000];
    static unsigned next;
    char *copy = copies[next++ % 4];
    if (once_in(10)) return memory();
    if (once_in(30)) {
        memset(copy, once_in(2) ? 'x' : '/', sizeof copies[0] - 1);
        copy[(const size_t[]){254, 255, 256, 4094, 4095, 4096, 4999}[below(7)]] = 0;
    } else {
        strcpy(copy, paths[below(sizeof paths / sizeof *paths)]);
    }
    return (uint64_t)copy;
}

static uint64_t short_time(void) {
    static struct itimerspec times[4];
    static unsigned next;
    struct itimerspec *time = &times[next++ % 4];
    *time = (struct itimerspec){{0, (long)below(100000)}, {0, (long)below(100000)}};
    if (once_in(10)) time->it_value.tv_sec = (time_t)number();
    if (once_in(10)) time->it_value.tv_nsec = (long)number();
    return once_in(8) ? memory() : (uint64_t)&time->it_value - (once_in(2) ? sizeof time->it_interval : 0);
}

static uint64_t one_of(const uint64_t *values, size_t count) {
    return once_in(12) ? number() : values[below(count)];
}
#define among(...) one_of((const uint64_t[]){__VA_ARGS__}, sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

/* Loopback, a path, a name without a file, the kernel. */
static uint64_t address(void) {
    static union {
        struct sockaddr_un local;
        struct sockaddr_in four;
        struct sockaddr_in6 six;
        struct sockaddr any;
    } all[4];
    static unsigned next;
    __typeof__(&all[0]) one = &all[next++ % 4];
    memset(one, 0, sizeof *one);
    one->any.sa_family = (sa_family_t)among(AF_UNIX, AF_INET, AF_INET6, AF_NETLINK, AF_UNSPEC);
    if (one->any.sa_family == AF_UNIX) strcpy(one->local.sun_path + below(2), once_in(2) ? "socket" : "other");
    if (one->any.sa_family == AF_INET) one->four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (one->any.sa_family == AF_INET6) one->six.sin6_addr = in6addr_loopback;
    if (one->any.sa_family == AF_INET || one->any.sa_family == AF_INET6) one->four.sin_port = htons(8000 + below(4));
    return once_in(8) ? memory() : (uint64_t)one;
}

static uint64_t attribute(void) {
    static char names[4][16] = {"user.x", "user.y", "security.x", "trusted.x"};
    return once_in(8) ? path() : (uint64_t)names[below(4)];
}

static uint64_t argument(char kind) {
    if (once_in(25)) return number();
    switch (kind) {
    case 'f': return descriptor();
    case 'p': return memory();
    case 'P': return path();
    case 's': return once_in(4) ? number() : below(PAGE);
    case 'o': return once_in(3) ? number() : below(1 << 16);
    case 'd': return process();
    case 'g': return once_in(4) ? number() : below(65);
    case 'l': return flags();
    case 't': return short_time();
    case 'c': return once_in(8) ? number() : below(12);
    case 'N': return once_in(2) ? 0 : memory();
    case 'x': return attribute();
    case 'S': return once_in(8) ? number() : PAGE * below(5);
    case 'z': return once_in(12) ? number() : 8;
    case 'u': return among(1000, (uint64_t)-1, 0, 65534);
    case 'M': return below(8) | (once_in(8) ? number() : 0);
    case 'k': return among(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11);
    case 'D': return among(AF_UNIX, AF_INET, AF_INET6, AF_NETLINK);
    case 'T': return among(SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET, SOCK_RAW) | among(0, SOCK_NONBLOCK, SOCK_CLOEXEC);
    case 'v': return among(SOL_SOCKET, IPPROTO_IP, IPPROTO_IPV6, IPPROTO_TCP, IPPROTO_UDP, SOL_NETLINK);
    case 'O': return once_in(8) ? number() : below(90);
    case 'a': return address();
    case 'A': return among(2, 4, 9, 16, 28, 110, 128);
    default: return number();
    }
}

/* Structures in memory are made of words like these: small numbers, descriptors, pointers, sizes, anything. */
static void fill_memory(void) {
    uint64_t *words = (uint64_t *)arena;
    for (uint64_t n = 8 + below(24), at = below(PAGE / 8); n > 0; n--, at++)
        words[at % (2 * PAGE / 8)] = argument("fpsidlio"[below(8)]);
    if (once_in(4)) ((uint16_t *)arena)[below(PAGE / 4) * 2] = (uint16_t)below(46); /* a family of addresses */
}

static void keep(int fd) {
    if (fd >= 0 && pooled < 64) pool[pooled++] = fd;
}

/* Descriptors of every kind a sandbox has. */
static void make_descriptors(void) {
    int pair[2];
    sigset_t all;
    sigfillset(&all);
    pooled = 0;
    for (int fd = 0; fd < 3; fd++) keep(fd);
    keep(open("a", O_RDWR | O_CREAT, 0600));
    keep(open("/tmp", O_TMPFILE | O_RDWR, 0600));
    keep(open(".", O_RDONLY | O_DIRECTORY));
    keep(open("/", O_PATH));
    keep(open("/dev/zero", O_RDWR));
    keep(open("/dev/full", O_RDWR));
    keep(open("/dev/urandom", O_RDONLY));
    keep(open("/proc/self/maps", O_RDONLY));
    keep(open("/proc/self/ns/net", O_RDONLY));
    keep(open("/usr/bin/true", O_RDONLY));
    if (pipe2(pair, O_NONBLOCK) == 0) keep(pair[0]), keep(pair[1]);
    static const int kinds[][2] = {
        {AF_UNIX, SOCK_STREAM}, {AF_UNIX, SOCK_DGRAM},   {AF_UNIX, SOCK_SEQPACKET}, {AF_INET, SOCK_STREAM},
        {AF_INET, SOCK_DGRAM},  {AF_INET6, SOCK_STREAM}, {AF_INET6, SOCK_DGRAM},    {AF_NETLINK, SOCK_RAW},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) keep(socket(kinds[i][0], kinds[i][1] | SOCK_NONBLOCK, 0));
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == 0) keep(pair[0]), keep(pair[1]);
    for (int i = 0; i < 2; i++) {
        int listener = socket(i ? AF_INET : AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
        listen(listener, 4);
        keep(listener);
    }
    keep(epoll_create1(0));
    keep(eventfd(0, EFD_NONBLOCK));
    keep(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK));
    keep(signalfd(-1, &all, SFD_NONBLOCK));
    keep(inotify_init1(IN_NONBLOCK));
    keep(memfd_create("m", MFD_ALLOW_SEALING));
    keep((int)syscall(SYS_pidfd_open, getpid(), 0));
    keep((int)syscall(444 /* landlock_create_ruleset */, (uint64_t[]){1}, 8, 0));
}

static void wake_up(int ignored) {
    (void)ignored;
}

static void one_call(struct progress *mine) {
    const struct call *call = &calls[below((uint64_t)known)];
    uint64_t args[6];
    for (size_t i = 0; i < 6; i++) {
        char kind = i < strlen(call->kinds) ? call->kinds[i] : 'i';
        args[i] = once_in(10) ? argument("fpPsodgiltcSa"[below(13)]) : argument(kind);
    }
    for (int i = 0; i < 3 && call->aimed; i++) {
        int32_t word = (int32_t)args[i];
        /* The parent, its group, or everybody with it; to kill or stop, when what is aimed is a signal. */
        if (word == parent || word == -parent || word == -1) args[i] = (uint64_t)getpid();
        if (word == SIGKILL || word == SIGSTOP) args[i] = SIGUSR1;
    }
    mine->number = call->number;
    pid_t self = getpid();
    long result = syscall(call->number, args[0], args[1], args[2], args[3], args[4], args[5]);
    /* Whoever the call has made ends here. */
    if (syscall(SYS_getpid) != self) _exit(0);
    mine->made++;
    if (result > 2 && result < 1024 && once_in(2)) pool[3 + below((uint64_t)pooled - 3)] = (int)result;
}

static void work(int slot, uint64_t seed) {
    char folder[32];
    state = seed;
    setsid();
    snprintf(folder, sizeof folder, "/tmp/worker-%d", slot);
    mkdir(folder, 0700);
    /* Where another one has made this impossible, any place will do. */
    if (chdir(folder) == -1 && chdir("/tmp") == -1 && chdir("/") == -1) _exit(1);
    /* Its output would be taken for the parent's. */
    for (int fd = 0; fd < 3; fd++) dup2(open("/dev/null", O_RDWR), fd);
    arena = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(arena + 2 * PAGE, PAGE, PROT_READ);
    munmap(arena + 3 * PAGE, PAGE);
    make_descriptors();
    setrlimit(RLIMIT_AS, &(struct rlimit){256 << 20, 256 << 20});
    /* What sleeps is woken, and signals alone end nobody. */
    for (int number = 1; number < 65; number++)
        if (number != SIGSEGV && number != SIGBUS && number != SIGILL && number != SIGFPE)
            sigaction(number, &(struct sigaction){.sa_handler = wake_up}, NULL);
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 5000}, {0, 5000}}, NULL);
    for (int i = 0; i < CALLS_OF_A_WORKER; i++) {
        if (i % 4 == 0) fill_memory();
        one_call(&progress[slot]);
    }
    _exit(0);
}

static uint64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static int read_calls(void) {
    while (known < MOST && scanf("%d %39s", &calls[known].number, calls[known].name) == 2) {
        struct call *call = &calls[known];
        int left_out = 0;
        for (size_t i = 0; i < sizeof never / sizeof *never; i++) left_out |= !strcmp(call->name, never[i]);
        if (left_out) continue;
        for (size_t i = 0; i < sizeof aimed / sizeof *aimed; i++) call->aimed |= !strcmp(call->name, aimed[i]);
        call->kinds = "";
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            if (!strcmp(call->name, shapes[i].name)) call->kinds = shapes[i].kinds;
        known++;
    }
    return known;
}

int main(int argc, char **argv) {
    if (argc != 3 || read_calls() < 100) {
        fprintf(stderr, "usage: fuzz SEED SECONDS < CALLS\n");
        return 2;
    }
    const uint64_t seed = strtoull(argv[1], NULL, 10), end = now_ms() + strtoull(argv[2], NULL, 10) * 1000;
    uint64_t made = 0, died = 0, hung = 0, born = 0, told = now_ms();
    pid_t pids[WORKERS] = {0};
    uint64_t before[WORKERS] = {0}, moved[WORKERS] = {0};
    parent = getpid();
    progress = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    while (now_ms() < end) {
        for (int slot = 0; slot < WORKERS; slot++) {
            int status;
            uint64_t count = progress[slot].made;
            /* A worker may have scribbled over its count. */
            if (count > before[slot] && count - before[slot] <= CALLS_OF_A_WORKER) {
                made += count - before[slot];
                moved[slot] = now_ms();
            }
            before[slot] = count;
            if (pids[slot] > 0 && now_ms() - moved[slot] > HUNG_MS) {
                kill(pids[slot], SIGKILL);
                moved[slot] = now_ms();
                hung++;
            }
            if (pids[slot] > 0 && waitpid(pids[slot], &status, WNOHANG) == pids[slot]) {
                died += WIFSIGNALED(status) ? 1 : 0;
                pids[slot] = 0;
            }
            if (pids[slot] <= 0) {
                born++;
                /* Workers change what is theirs, and all of it is. */
                for (int i = 0; i < 4; i++)
                    chmod((const char *[]){"/tmp", "/workspace", "/dev/shm", "/var/tmp"}[i], 01777);
                progress[slot].made = before[slot] = 0;
                moved[slot] = now_ms();
                pids[slot] = fork();
                if (pids[slot] == 0) work(slot, seed * 1000003 + born);
            }
        }
        /* Orphans of workers are pid 1's; strays that a worker made are nobody's, and end with the sandbox. */
        if (now_ms() - told >= 1000) {
            printf("calls %lu, children %lu, died %lu, hung %lu\n", made, born, died, hung);
            fflush(stdout);
            told = now_ms();
        }
        usleep(1000);
    }
    printf("seed %lu\ncalls %lu, children %lu, died %lu, hung %lu\n", seed, made, born, died, hung);
    return 0;
}
