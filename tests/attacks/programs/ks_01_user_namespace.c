/* Makes a user namespace in every way there is, and uses the power it would give. */
#include "attack.h"

#include <linux/netlink.h>
#include <linux/sched.h>
#include <pthread.h>
#include <sched.h>
#include <spawn.h>
#include <sys/mount.h>
#include <sys/socket.h>

#define OTHERS (CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP)
#define GARBAGE_ABOVE 0x7abc000000000000UL


static long mount_tmpfs(void) {
    return mount("none", "/tmp", "tmpfs", 0, NULL);
}

static long open_nft(void) {
    return socket(AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER);
}

/* Somebody who got here is in a user namespace: 1000, and more for each thing that works there. */
static long power(void) {
    return 1000 + (mount_tmpfs() == 0 ? 1 : 0) + (open_nft() >= 0 ? 2 : 0);
}

static long by_unshare(unsigned long flags) {
    return syscall(SYS_unshare, flags) == -1 ? -1 : power();
}

static long finish(long pid) {
    int status;
    if (pid == 0) _exit((int)(power() - 1000));
    if (pid == -1) return -1;
    waitpid((pid_t)pid, &status, __WALL);
    return 1000 + WEXITSTATUS(status);
}

static long by_clone(unsigned long flags) {
    return finish(syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0));
}

static long by_clone3(unsigned long flags, size_t size) {
    struct clone_args args = {.flags = flags, .exit_signal = SIGCHLD};
    return finish(syscall(SYS_clone3, &args, size));
}

static long plain_fork(void) {
    pid_t pid = fork();
    if (pid == 0) _exit(0);
    return waitpid(pid, NULL, 0) == pid ? 0 : -1;
}

static void *count(void *counter) {
    __atomic_add_fetch((int *)counter, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

/* glibc makes threads and children by clone3 first, so its refusal must not break them. */
static long threads(void) {
    pthread_t thread[16];
    int counter = 0;
    for (int i = 0; i < 16; i++)
        if (pthread_create(&thread[i], NULL, count, &counter) != 0) return -1;
    for (int i = 0; i < 16; i++) pthread_join(thread[i], NULL);
    return counter - 16;
}

static long spawned(char *const words[]) {
    int status;
    pid_t pid;
    extern char **environ;
    posix_spawn_file_actions_t quiet;
    posix_spawn_file_actions_init(&quiet);
    posix_spawn_file_actions_addopen(&quiet, 2, "/dev/null", O_WRONLY, 0);
    int failed = posix_spawnp(&pid, words[0], &quiet, NULL, words, environ);
    if (failed) {
        errno = failed;
        return -1;
    }
    waitpid(pid, &status, 0);
    return WEXITSTATUS(status);
}

int main(void) {
    in_child("unshare alone", by_unshare(CLONE_NEWUSER));
    in_child("unshare with all others", by_unshare(CLONE_NEWUSER | OTHERS));
    in_child("unshare with a mount namespace", by_unshare(CLONE_NEWUSER | CLONE_NEWNS));
    in_child("unshare with shared parts", by_unshare(CLONE_NEWUSER | CLONE_FS | CLONE_FILES | CLONE_SYSVSEM));
    in_child("unshare with garbage above", by_unshare(CLONE_NEWUSER | GARBAGE_ABOVE));
    in_child("clone alone", by_clone(CLONE_NEWUSER));
    in_child("clone with all others", by_clone(CLONE_NEWUSER | OTHERS));
    in_child("clone as a sibling", by_clone(CLONE_NEWUSER | CLONE_PARENT));
    in_child("clone by vfork", by_clone(CLONE_NEWUSER | CLONE_VFORK));
    in_child("clone with garbage above", by_clone(CLONE_NEWUSER | GARBAGE_ABOVE));
    in_child("clone3 alone", by_clone3(CLONE_NEWUSER, sizeof(struct clone_args)));
    in_child("clone3 with all others", by_clone3(CLONE_NEWUSER | OTHERS, sizeof(struct clone_args)));
    in_child("clone3 of the first size", by_clone3(CLONE_NEWUSER, 64));
    in_child("clone3 without flags", by_clone3(0, sizeof(struct clone_args)));
    in_child("tool unshare", spawned((char *[]){"unshare", "--user", "--map-root-user", "true", NULL}));
    in_child("without: mount a tmpfs", mount_tmpfs());
    in_child("without: open nf_tables", open_nft());
    attempt("works: threads", threads());
    attempt("works: fork", plain_fork());
    attempt("works: spawn", spawned((char *[]){"true", NULL}));
    return 0;
}
