/* Kills: everybody at once, every number there could be, by every call that sends a signal.
 * What it does at the end comes as an argument: `lives`, or `group` to kill its own process group with itself in it. */
#include "attack.h"
#include <sys/socket.h>
#include <time.h>

enum { LAST = 65535, CHILDREN = 3 };

static pid_t children[CHILDREN];
static const int target_signal = SIGKILL;

static void breed(void) {
    for (int i = 0; i < CHILDREN; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            /* One in a group and one in a session of its own. */
            if (i == 1) setpgid(0, 0);
            if (i == 2) setsid();
            for (;;) pause();
        }
    }
    usleep(20000);
}

/* How the children ended: the control that a killing call kills at all. */
static void bury(const char *name) {
    int killed = 0, status;
    usleep(20000);
    for (int i = 0; i < CHILDREN; i++) {
        if (waitpid(children[i], &status, WNOHANG) > 0) {
            killed += WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
        } else {
            kill(children[i], SIGKILL);
            waitpid(children[i], &status, 0);
        }
    }
    report(name, named("%d of %d own children died", killed, CHILDREN));
}

static long by_kill(int pid) { return kill(pid, target_signal); }
static long by_group(int pid) { return pid == 1 ? -2 : kill(-pid, target_signal); }
static long by_tkill(int pid) { return syscall(SYS_tkill, pid, target_signal); }
static long by_tgkill(int pid) { return syscall(SYS_tgkill, pid, pid, target_signal); }

static long by_queue(int pid) {
    siginfo_t info = {.si_signo = target_signal, .si_code = SI_QUEUE};
    return syscall(SYS_rt_sigqueueinfo, pid, target_signal, &info);
}

static long by_thread_queue(int pid) {
    siginfo_t info = {.si_signo = target_signal, .si_code = SI_QUEUE};
    return syscall(SYS_rt_tgsigqueueinfo, pid, pid, target_signal, &info);
}

/* With a sender that claims to be the kernel. */
static long by_forged_queue(int pid) {
    siginfo_t info = {.si_signo = target_signal, .si_code = SI_KERNEL};
    return syscall(SYS_rt_sigqueueinfo, pid, target_signal, &info);
}

static long by_pidfd(int pid) {
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd == -1) return -1;
    long result = syscall(SYS_pidfd_send_signal, fd, target_signal, NULL, 0);
    int error = errno;
    close(fd);
    errno = error;
    return result;
}

/* A signal the kernel sends on our behalf when a descriptor becomes ready. To be named as the one it goes to needs no
 * right; whether it arrives is seen in who is alive afterwards. */
static long by_owner(int pid) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == -1) return -1;
    long result = fcntl(pair[0], F_SETOWN, pid);
    int error = errno;
    fcntl(pair[0], F_SETSIG, target_signal);
    fcntl(pair[0], F_SETFL, O_ASYNC);
    if (write(pair[1], "x", 1) != 1) result = -1;
    close(pair[0]);
    close(pair[1]);
    errno = error;
    return result;
}

static long by_timer(int pid) {
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = target_signal};
    event._sigev_un._tid = pid;
    long result = timer_create(CLOCK_MONOTONIC, &event, &timer);
    if (result == 0) timer_delete(timer);
    return result;
}

/* Tries it on everybody but itself and its children. Who else could be reached, and how pid 1 answered. */
static void sweep(const char *name, long (*send)(int)) {
    char reached[512] = "";
    errno = 0;
    long first = send(1);
    report(named("%s to pid 1", name), first == -2 ? "not tried" : answer_of(first, errno));
    for (int pid = 2; pid <= LAST; pid++) {
        if (pid == getpid() || pid == children[0] || pid == children[1] || pid == children[2]) continue;
        errno = 0;
        if ((send(pid) != -1 || (errno != ESRCH && errno != EINVAL)) && strlen(reached) < 450) {
            sprintf(reached + strlen(reached), "%d (%s) ", pid, errno_name(errno));
        }
    }
    report(named("%s to others", name), *reached ? reached : "nobody there");
    for (int i = 0; i < CHILDREN; i++) send(children[i]);
}

int main(int argc, char **argv) {
    if (argc < 2) return 1;
    const char *server = getenv("ATTACK_SERVER_PID");
    if (!server) return 1;
    /* The pid of a process of the host. Here it is nobody. Where it is somebody there is no wall, which is told, and
     * then nobody is killed: it could be anybody on the machine. */
    errno = 0;
    long there = kill(atoi(server), 0);
    report("a process of the host", answer_of(there, errno));
    if (there == 0 || errno != ESRCH) return 1;

    struct {
        const char *name;
        long (*send)(int);
    } ways[] = {
        {"kill", by_kill},
        {"kill of a group", by_group},
        {"tkill", by_tkill},
        {"tgkill", by_tgkill},
        {"rt_sigqueueinfo", by_queue},
        {"rt_tgsigqueueinfo", by_thread_queue},
        {"pidfd_send_signal", by_pidfd},
        {"timer", by_timer},
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        breed();
        sweep(ways[i].name, ways[i].send);
        bury(named("%s to its own", ways[i].name));
    }
    attempt("forged rt_sigqueueinfo to pid 1", by_forged_queue(1));
    breed();
    attempt("owner of a descriptor is its child", by_owner(children[0]));
    bury("owner of a descriptor: its own");
    attempt("owner of a descriptor is pid 1", by_owner(1));
    attempt("owner of a descriptor is the group of pid 1", by_owner(-1));
    attempt("owner of a descriptor is nobody", by_owner(LAST));

    errno = 0;
    report("pid 1 after that", kill(1, 0) == -1 && errno == ESRCH ? "dead" : "alive");

    breed();
    attempt("kill everybody", kill(-1, SIGKILL));
    bury("kill everybody: its own");
    attempt("kill everybody by queue", by_queue(-1));
    report("after all of it", "alive");
    if (!strcmp(argv[1], "group")) {
        /* A group without a number here is that of whoever called from outside, and so no wall protects it. */
        if (getpgrp() == 0) {
            report("its group", "is the caller's");
            return 1;
        }
        kill(0, SIGKILL);
        report("after killing its group", "alive");
    }
    return 0;
}
