/* Looks into and steers processes: its own child, its parent, itself and PID 1. */
#include "attack.h"

#include <linux/kcmp.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

static volatile long secret = 0x5ec2e7;

static pid_t waiting_child(void) {
    pid_t pid = fork();
    if (pid == 0)
        for (;;) pause();
    return pid;
}

static void end(pid_t pid) {
    kill(pid, SIGKILL);
    waitpid(pid, NULL, __WALL);
}

/* Attaches, reads a word, writes it back, lets go. */
static long attach(pid_t pid, int request) {
    if (ptrace(request, pid, 0, 0) == -1) return -1;
    if (request == PTRACE_SEIZE && ptrace(PTRACE_INTERRUPT, pid, 0, 0) == -1) return -1;
    waitpid(pid, NULL, __WALL);
    long word = ptrace(PTRACE_PEEKDATA, pid, &secret, 0);
    long written = ptrace(PTRACE_POKEDATA, pid, &secret, word);
    ptrace(PTRACE_DETACH, pid, 0, 0);
    return word == secret && written == 0 ? 0 : -1;
}

static long copy_from(pid_t pid) {
    long word = 0;
    struct iovec here = {&word, sizeof word}, there = {(void *)&secret, sizeof secret};
    long copied = syscall(SYS_process_vm_readv, pid, &here, 1, &there, 1, 0);
    return copied == -1 ? -1 : copied == sizeof word && word == secret ? 0 : -2;
}

static long copy_to(pid_t pid) {
    long word = secret;
    struct iovec here = {&word, sizeof word}, there = {(void *)&secret, sizeof secret};
    long copied = syscall(SYS_process_vm_writev, pid, &here, 1, &there, 1, 0);
    return copied == -1 ? -1 : copied == sizeof word ? 0 : -2;
}

static long steal_descriptor(pid_t pid) {
    long handle = syscall(SYS_pidfd_open, pid, 0);
    return handle == -1 ? -1 : syscall(SYS_pidfd_getfd, handle, 1, 0);
}

static long advise(pid_t pid, int advice) {
    struct iovec there = {(void *)((unsigned long)&secret & ~4095UL), 4096};
    long handle = syscall(SYS_pidfd_open, pid, 0);
    return handle == -1 ? -1 : syscall(SYS_process_madvise, handle, &there, 1, advice, 0);
}

static long release(pid_t pid) {
    long handle = syscall(SYS_pidfd_open, pid, 0);
    return handle == -1 ? -1 : syscall(SYS_process_mrelease, handle, 0);
}

static long write_memory(pid_t pid) {
    int file = open(named("/proc/%d/mem", pid), O_RDWR);
    return file == -1 ? -1 : pwrite(file, (void *)&secret, sizeof secret, (off_t)&secret);
}

/* By the process itself, because a host may let only ancestors trace. */
static void tracing(const char *whom, pid_t pid) {
    attempt(named("%s: attach", whom), attach(pid, PTRACE_ATTACH));
    attempt(named("%s: seize", whom), attach(pid, PTRACE_SEIZE));
    attempt(named("%s: read memory", whom), copy_from(pid));
    attempt(named("%s: write memory", whom), copy_to(pid));
}

static void never(const char *whom, pid_t pid) {
    in_child(named("%s, never: take a descriptor", whom), steal_descriptor(pid));
    in_child(named("%s, never: compare objects", whom), syscall(SYS_kcmp, pid, getpid(), KCMP_VM, 0, 0));
    in_child(named("%s, never: page out", whom), advise(pid, MADV_PAGEOUT));
    in_child(named("%s, never: reap memory", whom), release(pid));
    in_child(named("%s, never: open memory for writing", whom), write_memory(pid));
}

int main(void) {
    pid_t child = waiting_child();
    tracing("child", child);
    never("child", child);
    end(child);
    in_child("parent: attach", attach(getppid(), PTRACE_ATTACH));
    in_child("parent: read memory", copy_from(getppid()));
    tracing("pid 1", 1);
    never("pid 1", 1);
    in_child("itself: be traced", ptrace(PTRACE_TRACEME, 0, 0, 0));
    in_child("nobody: attach", ptrace(PTRACE_ATTACH, 0x3fffff, 0, 0));
    in_child("pid 1: attach, garbage above", syscall(SYS_ptrace, PTRACE_ATTACH, 1L << 32 | 1, 0, 0));
    in_child("pid 1: read memory, garbage above", syscall(SYS_process_vm_readv, 1L << 32 | 1, NULL, 0, NULL, 0, 0));
    return 0;
}
