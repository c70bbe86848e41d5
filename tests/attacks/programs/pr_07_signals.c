/* Sends every signal to pid 1, by every call, then storms of stopping and going on. Whether supervision still works is
 * seen in how this ends: by itself, or at its deadline when the argument says so. */
#include "attack.h"
#include <pthread.h>
#include <time.h>

enum { STORM = 20000 };

static const char *all(long (*send)(int)) {
    static char answers[512];
    int counts[200] = {0};
    int accepted = 0;
    for (int number = 1; number <= 64; number++) {
        errno = 0;
        if (send(number) == 0) accepted++;
        else if (errno > 0 && errno < 200) counts[errno]++;
    }
    answers[0] = 0;
    if (accepted) strcat(answers, "accepted ");
    for (int i = 0; i < 200; i++) {
        if (counts[i]) strcat(strcat(answers, errno_name(i)), " ");
    }
    return answers;
}

static long by_kill(int number) { return kill(1, number); }
static long by_tkill(int number) { return syscall(SYS_tkill, 1, number); }
static long by_tgkill(int number) { return syscall(SYS_tgkill, 1, 1, number); }

static long by_queue(int number) {
    siginfo_t info = {.si_signo = number, .si_code = SI_QUEUE};
    return syscall(SYS_rt_sigqueueinfo, 1, number, &info);
}

static long as_a_child(int number) {
    /* As if a child had ended: PID 1 listens to this one. */
    siginfo_t info = {.si_signo = number, .si_code = CLD_EXITED, .si_pid = 2, .si_status = 0};
    return syscall(SYS_rt_sigqueueinfo, 1, number, &info);
}

static long by_pidfd(int number) {
    int fd = (int)syscall(SYS_pidfd_open, 1, 0);
    long result = fd == -1 ? -1 : syscall(SYS_pidfd_send_signal, fd, number, NULL, 0);
    int error = errno;
    close(fd);
    errno = error;
    return result;
}

static long to_its_group(int number) {
    int fd = (int)syscall(SYS_pidfd_open, 1, 0);
    long result = fd == -1 ? -1 : syscall(SYS_pidfd_send_signal, fd, number, NULL,
        4 /* PIDFD_SIGNAL_PROCESS_GROUP */);
    int error = errno;
    close(fd);
    errno = error;
    return result;
}

static void *storm(void *unused) {
    int signals[] = {SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU, SIGCONT, SIGCHLD, SIGURG, SIGPIPE, SIGIO, SIGTERM};
    for (int i = 0; i < STORM; i++) kill(1, signals[i % 10]);
    return unused;
}

/* Children that stop and go on tell their parent, which is PID 1 for orphans. */
static void stops_and_goes_on(void) {
    if (fork() == 0) {
        if (fork() == 0) {
            for (;;) pause();
        }
        _exit(0);
    }
    wait(NULL);
    for (int i = 0; i < 500; i++) {
        kill(-1, SIGSTOP);
        kill(-1, SIGCONT);
    }
    kill(-1, SIGKILL);
}

int main(int argc, char **argv) {
    struct {
        const char *name;
        long (*send)(int);
    } ways[] = {
        {"kill", by_kill},
        {"tkill", by_tkill},
        {"tgkill", by_tgkill},
        {"rt_sigqueueinfo", by_queue},
        {"rt_sigqueueinfo as a child", as_a_child},
        {"pidfd_send_signal", by_pidfd},
        {"pidfd_send_signal to its group", to_its_group},
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        report(named("signals 1 to 64 by %s", ways[i].name), all(ways[i].send));
    }
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, storm, NULL);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    stops_and_goes_on();
    /* A child that ends is reaped by its parent; one that lost its parent by PID 1, if it still does its work. */
    pid_t pipe_[2];
    if (pipe(pipe_) == -1) return 1;
    pid_t middle = fork();
    if (middle == 0) {
        pid_t orphan = fork();
        if (orphan == 0) {
            usleep(20000);
            _exit(0);
        }
        _exit(write(pipe_[1], &orphan, sizeof orphan) != sizeof orphan);
    }
    waitpid(middle, NULL, 0);
    pid_t orphan = 0;
    if (read(pipe_[0], &orphan, sizeof orphan) != sizeof orphan) return 1;
    for (int i = 0; i < 100 && kill(orphan, 0) == 0; i++) usleep(10000);
    report("pid 1 after all of it", kill(orphan, 0) == -1 && errno == ESRCH ? "buries orphans" : "does nothing");
    if (argc > 1 && !strcmp(argv[1], "stay")) {
        for (;;) {
            storm(NULL);
            usleep(1000);
        }
    }
    return 0;
}
