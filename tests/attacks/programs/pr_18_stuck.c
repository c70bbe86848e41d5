/* Gets stuck in ways from which it cannot be talked out. Which one comes as an argument. */
#include "attack.h"
#include <linux/futex.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>

/* Nothing can be caught here, and nothing is heard. */
static void go_deaf(void) {
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
}

static void parent_of_vfork(void) {
    if (vfork() == 0) {
        for (;;) pause();
    }
}

/* A chain of parents, each waiting in the kernel for its child to let go. */
static void chain_of_vforks(void) {
    for (int i = 0; i < 20; i++) {
        if (vfork() != 0) _exit(0);
    }
    for (;;) pause();
}

static void pipe_nobody_writes(void) {
    int ends[2];
    char byte;
    if (pipe(ends) == 0 && read(ends[0], &byte, 1) == 1) _exit(1);
}

static void fifo_nobody_opens(void) {
    mkfifo("/tmp/fifo", 0600);
    open("/tmp/fifo", O_RDONLY);
}

static void futex_nobody_wakes(void) {
    int *word = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 5; i++) {
        if (fork() == 0) break;
    }
    syscall(SYS_futex, word, FUTEX_WAIT, 0, NULL, NULL, 0);
}

static void lock_somebody_holds(void) {
    int ends[2];
    char byte;
    if (pipe(ends) == -1) return;
    if (fork() == 0) {
        flock(open("/tmp/lock", O_CREAT | O_RDWR, 0600), LOCK_EX);
        if (write(ends[1], "x", 1) == 1) pause();
    }
    if (read(ends[0], &byte, 1) == 1) flock(open("/tmp/lock", O_CREAT | O_RDWR, 0600), LOCK_EX);
}

static void queue_nobody_fills(void) {
    int queue = msgget(IPC_PRIVATE, 0600);
    char message[64];
    msgrcv(queue, message, 8, 0, 0);
}

static void socket_nobody_calls(void) {
    int s = socket(AF_UNIX, SOCK_STREAM, 0);
    struct sockaddr address = {.sa_family = AF_UNIX};
    bind(s, &address, sizeof address.sa_family);
    listen(s, 1);
    accept(s, NULL, NULL);
}

static void *sleep_for_ever(void *unused) {
    for (;;) pause();
    return unused;
}

/* The first thread is gone, so the process is a zombie that lives. */
static void leader_that_left(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, sleep_for_ever, NULL);
    pthread_exit(NULL);
}

/* Stopped by a tracer that does not care; the tracee also stops once more on its way out. */
static void traced(void) {
    pid_t tracee = fork();
    if (tracee == 0) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        raise(SIGSTOP);
        for (;;) pause();
    }
    waitpid(tracee, NULL, 0);
    if (ptrace(PTRACE_SETOPTIONS, tracee, 0, PTRACE_O_TRACEEXIT | PTRACE_O_TRACEFORK) == -1) {
        printf("not traced: %s\n", errno_name(errno));
        fflush(stdout);
        _exit(9);
    }
    printf("traced\n");
    fflush(stdout);
}

/* The first process itself is the one that is traced, by its child. */
static void traced_by_its_child(void) {
    pid_t parent = getpid();
    pid_t tracer = fork();
    if (tracer == 0) {
        go_deaf();
        if (ptrace(PTRACE_SEIZE, parent, 0, PTRACE_O_TRACEEXIT) == -1) {
            printf("not traced: %s\n", errno_name(errno));
            fflush(stdout);
            kill(parent, SIGKILL);
            _exit(9);
        }
        ptrace(PTRACE_INTERRUPT, parent, 0, 0);
        printf("traced\n");
        fflush(stdout);
    }
}

int main(int argc, char **argv) {
    const struct {
        const char *name;
        void (*get_stuck)(void);
    } ways[] = {
        {"vfork", parent_of_vfork},
        {"vforks", chain_of_vforks},
        {"pipe", pipe_nobody_writes},
        {"fifo", fifo_nobody_opens},
        {"futex", futex_nobody_wakes},
        {"lock", lock_somebody_holds},
        {"queue", queue_nobody_fills},
        {"socket", socket_nobody_calls},
        {"leader", leader_that_left},
        {"traced", traced},
        {"tracer", traced_by_its_child},
    };
    const size_t untraced = sizeof ways / sizeof *ways - 2;
    go_deaf();
    if (argc > 1 && !strcmp(argv[1], "all")) {
        /* A child in each of them, and itself in the first. */
        for (size_t i = 1; i < untraced; i++) {
            if (fork() == 0) {
                ways[i].get_stuck();
                for (;;) pause();
            }
        }
        argv[1] = "vfork";
    }
    for (size_t i = 0; argc > 1 && i < sizeof ways / sizeof *ways; i++) {
        if (strcmp(argv[1], ways[i].name)) continue;
        printf("stuck in %s\n", argv[1]);
        fflush(stdout);
        ways[i].get_stuck();
        for (;;) pause();
    }
    return 2;
}
