/* Looks for processes that are not its own: in /proc, by every call that answers differently for a pid that exists. */
#include "attack.h"
#include <dirent.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>

static int last = 4194304;
static pid_t child;

static int known(int pid) {
    return pid == 1 || pid == getpid() || pid == child;
}

static long by_signal(int pid) { return kill(pid, 0); }
static long by_group(int pid) { return getpgid(pid); }
static long by_session(int pid) { return getsid(pid); }
static long by_affinity(int pid) { cpu_set_t set; return syscall(SYS_sched_getaffinity, pid, sizeof set, &set); }
static long by_priority(int pid) { return getpriority(PRIO_PROCESS, (id_t)pid); }
static long by_scheduler(int pid) { return sched_getscheduler(pid); }
static long by_limits(int pid) { struct rlimit limit; return prlimit(pid, RLIMIT_CPU, NULL, &limit); }
static long by_list(int pid) { void *head; size_t length; return syscall(SYS_get_robust_list, pid, &head,
    &length); }
static long by_ioprio(int pid) { return syscall(SYS_ioprio_get, 1, pid); }

static long by_pidfd(int pid) {
    long fd = syscall(SYS_pidfd_open, pid, 0);
    if (fd >= 0) close((int)fd);
    return fd;
}

static long by_path(int pid) {
    char path[32];
    struct stat stat_;
    snprintf(path, sizeof path, "/proc/%d", pid);
    return stat(path, &stat_);
}

/* A signal to a whole group finds groups whose leader is gone. */
static long by_group_signal(int pid) { return pid == 1 ? -1 : kill(-pid, 0); }

static void sweep(const char *name, long (*look)(int), int to) {
    char found[512] = "";
    int count = 0;
    for (int pid = 1; pid <= to; pid++) {
        if (known(pid)) continue;
        errno = 0;
        if ((look(pid) != -1 || (errno != ESRCH && errno != ENOENT && errno != EINVAL)) && count++ < 20) {
            sprintf(found + strlen(found), "%d ", pid);
        }
    }
    report(name, count ? found : "only its own");
}

static void list(void) {
    char found[512] = "";
    DIR *proc = opendir("/proc");
    for (struct dirent *entry; proc && (entry = readdir(proc));) {
        int pid = atoi(entry->d_name);
        if (pid > 0 && !known(pid) && strlen(found) < 480) sprintf(found + strlen(found), "%d ", pid);
    }
    if (proc) closedir(proc);
    struct stat stat_;
    attempt("PID 1 in /proc", stat("/proc/1", &stat_));
    report("listed in /proc", *found ? found : "only its own");
}

/* How often a field of our own status names numbers of an outer namespace. */
static void outer_numbers(void) {
    char line[256], number[64], more[64];
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status)) {
        if (strncmp(line, "NSpid:", 6)) continue;
        int words = sscanf(line + 6, "%63s %63s", number, more);
        report("numbers in outer namespaces", words == 1 ? "none" : more);
    }
    if (status) fclose(status);
}

int main(void) {
    FILE *most = fopen("/proc/sys/kernel/pid_max", "r");
    if (most) {
        if (fscanf(most, "%d", &last) != 1) last = 4194304;
        fclose(most);
    }
    child = fork();
    if (child == 0) {
        for (;;) pause();
    }
    list();
    sweep("kill 0 of every number", by_signal, last);
    sweep("kill 0 of every group", by_group_signal, 20000);
    sweep("getpgid", by_group, 20000);
    sweep("getsid", by_session, 20000);
    sweep("sched_getaffinity", by_affinity, 20000);
    sweep("getpriority", by_priority, 20000);
    sweep("sched_getscheduler", by_scheduler, 20000);
    sweep("prlimit", by_limits, 20000);
    sweep("get_robust_list", by_list, 20000);
    sweep("ioprio_get", by_ioprio, 20000);
    sweep("pidfd_open", by_pidfd, 20000);
    sweep("paths in /proc", by_path, 20000);
    attempt("getppid", getppid());
    attempt("getsid of itself is itself", getsid(0) == getpid() ? 0 : getsid(0));
    attempt("getpgid of itself is itself", getpgid(0) == getpid() ? 0 : getpgid(0));
    attempt("getsid of pid 1", getsid(1));
    attempt("getpgid of pid 1", getpgid(1));
    attempt("pid", getpid() < 1000 ? 0 : getpid());
    outer_numbers();
    /* Its own child is found, so the looks above are good ones. */
    attempt("kill 0 of its own child", kill(child, 0));
    attempt("path of its own child", by_path(child));
    kill(child, SIGKILL);
    wait(NULL);
}
