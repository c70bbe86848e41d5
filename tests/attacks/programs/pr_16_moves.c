/* Tries to leave where it is counted: the control group, the namespaces, the session. Then works in a daemon, to see
 * whether that is still counted. Arguments: milliseconds of work, and whether it shall still go on at the end. */
#include "attack.h"
#include <linux/sched.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <time.h>

static const char *PROCS[] = {
    "/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/unified/cgroup.procs", "/sys/fs/cgroup/pids/cgroup.procs",
    "/sys/fs/cgroup/memory/cgroup.procs", "/sys/fs/cgroup/cpu/tasks", "/sys/fs/cgroup/systemd/cgroup.procs",
    "/sys/fs/cgroup/cgroup.subtree_control", "/proc/self/cgroup", "/proc/1/cgroup", "/proc/self/cpuset",
};
static const char *SPACES[] = {
    "cgroup", "ipc", "mnt", "net", "pid", "pid_for_children", "time", "time_for_children", "user", "uts",
};
static const struct {
    const char *name;
    int flag;
} NEW[] = {
    {"cgroup", CLONE_NEWCGROUP},
    {"ipc", CLONE_NEWIPC},
    {"mnt", CLONE_NEWNS},
    {"net", CLONE_NEWNET},
    {"pid", CLONE_NEWPID},
    {"user", CLONE_NEWUSER},
    {"uts", CLONE_NEWUTS},
    {"time", 0x80},
};

static long new_by_clone(int flag) {
    long child = syscall(SYS_clone, flag | SIGCHLD, 0, 0, 0, 0);
    if (child == 0) _exit(0);
    if (child > 0) waitpid((pid_t)child, NULL, 0);
    return child;
}

static long new_by_clone3(unsigned long long flags, int cgroup) {
    struct clone_args args = {.flags = flags, .exit_signal = SIGCHLD, .cgroup = (unsigned long long)cgroup};
    long child = syscall(SYS_clone3, &args, sizeof args);
    if (child == 0) _exit(0);
    if (child > 0) waitpid((pid_t)child, NULL, 0);
    return child;
}

static long entered(const char *path, int kind) {
    int space = open(path, O_RDONLY);
    if (space == -1) return -1;
    long result = setns(space, kind);
    int error = errno;
    close(space);
    errno = error;
    return result;
}

static void work(long milliseconds) {
    struct timespec used;
    do {
        for (volatile int i = 0; i < 100000; i++) {
        }
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    } while (used.tv_sec * 1000 + used.tv_nsec / 1000000 < milliseconds);
}

int main(int argc, char **argv) {
    if (argc < 3) return 1;
    for (size_t i = 0; i < sizeof PROCS / sizeof *PROCS; i++) attempt(named("write %s", PROCS[i]), open(PROCS[i],
        O_WRONLY));
    attempt("make a control group", mkdir("/sys/fs/cgroup/mine", 0755));
    mkdir("/tmp/cg", 0755);
    attempt("mount control groups", mount("x", "/tmp/cg", "cgroup2", 0, NULL));
    for (size_t i = 0; i < sizeof SPACES / sizeof *SPACES; i++) {
        char own[64], first[64];
        snprintf(own, sizeof own, "/proc/self/ns/%s", SPACES[i]);
        snprintf(first, sizeof first, "/proc/1/ns/%s", SPACES[i]);
        attempt(named("enter its own %s namespace", SPACES[i]), entered(own, 0));
        attempt(named("enter the %s namespace of pid 1", SPACES[i]), entered(first, 0));
    }
    int self = (int)syscall(SYS_pidfd_open, getpid(), 0), init = (int)syscall(SYS_pidfd_open, 1, 0);
    attempt("enter by its own pidfd", setns(self, CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWUSER));
    attempt("enter by the pidfd of pid 1", setns(init, CLONE_NEWNS | CLONE_NEWCGROUP));
    for (size_t i = 0; i < sizeof NEW / sizeof *NEW; i++) {
        in_child(named("unshare %s", NEW[i].name), unshare(NEW[i].flag));
        attempt(named("clone3 %s", NEW[i].name), new_by_clone3((unsigned)NEW[i].flag, 0));
        /* Its bit means something else to the old call. */
        if (NEW[i].flag != 0x80) attempt(named("clone %s", NEW[i].name), new_by_clone(NEW[i].flag));
    }
    int slash = open("/", O_RDONLY | O_DIRECTORY);
    attempt("CLONE_INTO_CGROUP", new_by_clone3(CLONE_INTO_CGROUP, slash));
    attempt("CLONE_INTO_CGROUP of the first descriptor", new_by_clone3(CLONE_INTO_CGROUP, 0));
    attempt("shared address space without a parent", new_by_clone3(CLONE_PIDFD | CLONE_CLEAR_SIGHAND, 0));

    pid_t child = fork();
    if (child == 0) {
        setsid();
        if (fork() == 0) {
            setsid();
            for (int fd = 0; fd < 16; fd++) close(fd);
            work(atol(argv[1]));
            mkdir("/tmp/done", 0755);
            if (!strcmp(argv[2], "stays")) {
                for (;;) pause();
            }
        }
        _exit(0);
    }
    waitpid(child, NULL, 0);
    for (int i = 0; i < 1000 && access("/tmp/done", F_OK) == -1; i++) usleep(10000);
    attempt("work in a daemon", access("/tmp/done", F_OK));
    return 0;
}
