/* Makes every other kind of namespace, and joins those it can find: by their files, by descriptors of processes. */
#include "attack.h"

#include <linux/nsfs.h>
#include <linux/sched.h>
#include <sched.h>
#include <sys/ioctl.h>

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif
#define LISTNS 470
/* The first of ten neighbours. */
#define PIDFD_GET_NAMESPACE _IOC_NR(_IO(0xFF, 1))

struct kind {
    const char *name;
    unsigned long flag;
};

static const struct kind kinds[] = {
    {"mnt", CLONE_NEWNS}, {"cgroup", CLONE_NEWCGROUP}, {"uts", CLONE_NEWUTS},  {"ipc", CLONE_NEWIPC},
    {"pid", CLONE_NEWPID}, {"net", CLONE_NEWNET},      {"time", CLONE_NEWTIME},
};

static long by_clone(unsigned long flags) {
    long pid = syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0);
    if (pid == 0) _exit(0);
    return pid;
}

static long by_clone3(unsigned long flags) {
    struct clone_args args = {.flags = flags, .exit_signal = SIGCHLD};
    long pid = syscall(SYS_clone3, &args, sizeof args);
    if (pid == 0) _exit(0);
    return pid;
}

/* Entering a namespace needs its file open first; what refuses that refuses this. */
static long join(const char *path, unsigned long kind) {
    int file = open(path, O_RDONLY);
    return file == -1 ? -1 : syscall(SYS_setns, file, kind);
}

static long join_process(pid_t pid, unsigned long kinds_wanted) {
    long handle = syscall(SYS_pidfd_open, pid, 0);
    return handle == -1 ? -1 : syscall(SYS_setns, handle, kinds_wanted);
}

/* The namespace above one's own. */
static long parent_of(const char *path) {
    int file = open(path, O_RDONLY);
    return file == -1 ? -1 : ioctl(file, NS_GET_PARENT);
}

/* Since 6.11 a descriptor of a process hands out its namespaces. */
static long by_handle(pid_t pid, unsigned long request) {
    long handle = syscall(SYS_pidfd_open, pid, 0);
    if (handle == -1) return -1;
    int namespace = ioctl((int)handle, request, 0);
    return namespace == -1 ? -1 : syscall(SYS_setns, namespace, 0);
}

int main(void) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const char *name = kinds[i].name;
        unsigned long flag = kinds[i].flag;
        in_child(named("unshare %s", name), syscall(SYS_unshare, flag));
        /* To clone, the bit of a time namespace is part of the exit signal. */
        if (flag != CLONE_NEWTIME) in_child(named("clone %s", name), by_clone(flag));
        if (flag != CLONE_NEWTIME) in_child(named("clone %s, garbage above", name), by_clone(flag | 1UL << 40));
        in_child(named("clone3 %s", name), by_clone3(flag));
        in_child(named("setns own %s", name), join(named("/proc/self/ns/%s", name), flag));
        in_child(named("setns own %s of any kind", name), join(named("/proc/self/ns/%s", name), 0));
        in_child(named("find pid 1 %s", name), join(named("/proc/1/ns/%s", name), 0));
        in_child(named("find pid 1 by its thread, %s", name), join(named("/proc/1/task/1/ns/%s", name), 0));
        in_child(named("setns itself by pidfd, %s", name), join_process(getpid(), flag));
        in_child(named("setns pid 1 by pidfd, %s", name), join_process(1, flag));
    }
    in_child("setns own user", join("/proc/self/ns/user", CLONE_NEWUSER));
    in_child("find pid 1 user", join("/proc/1/ns/user", CLONE_NEWUSER));
    in_child("setns pid 1 by pidfd, everything", join_process(1, CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET));
    in_child("setns parent by pidfd, everything", join_process(getppid(), CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET));
    in_child("setns no descriptor", syscall(SYS_setns, -1, 0));
    in_child("setns standard input", syscall(SYS_setns, 0, 0));
    in_child("above the user namespace", parent_of("/proc/self/ns/user"));
    in_child("above the pid namespace", parent_of("/proc/self/ns/pid"));
    for (int kind = 0; kind < 10; kind++)
        in_child(named("handle of pid 1, %d", kind), by_handle(1, _IO(0xFF, PIDFD_GET_NAMESPACE + kind)));
    in_child("list namespaces", syscall(LISTNS, (long[8]){0}, (long[8]){0}, 8, 0));
    return 0;
}
