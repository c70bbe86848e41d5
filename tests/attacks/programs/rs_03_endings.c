/* Ends in ways that could be mistaken for another ending. Its word says how; what must be believed is what the
 * kernel says of the first process. */
#include "attack.h"
#include <pthread.h>
#include <sys/prctl.h>

static void *end_the_process(void *code) {
    usleep(100000);
    exit((int)(long)code);
}

static void *execute(void *unused) {
    (void)unused;
    usleep(50000);
    execl("/bin/sh", "sh", "-c", "exit 6", (char *)NULL);
    return NULL;
}

static void orphan(int code) {
    if (fork() == 0) {
        /* Becomes a child of pid 1, which reaps it. */
        if (fork() == 0) {
            usleep(20000);
            _exit(code);
        }
        _exit(code);
    }
}

int main(int argc, char **argv) {
    const char *way = argc > 1 ? argv[1] : "";
    pthread_t thread;
    report("success", "0");
#define IS(name) if (!strcmp(way, name))
    IS("crash") {
        fflush(stdout);
        *(volatile int *)0 = 0;
    }
    IS("abort") abort();
    IS("first thread ends") {
        /* The first thread is gone with code 0 long before the process ends with 9. */
        pthread_create(&thread, NULL, end_the_process, (void *)9L);
        syscall(SYS_exit, 0);
    }
    IS("other thread executes") {
        pthread_create(&thread, NULL, execute, NULL);
        pause();
    }
    IS("orphans") {
        for (int i = 0; i < 20; i++) orphan(0);
        usleep(100000);
        return 5;
    }
    IS("child succeeds") {
        if (fork() == 0) _exit(0);
        wait(NULL);
        return 5;
    }
    IS("child goes on") {
        /* The child lives on in the same group and says 0 later; the parent's end is the end. */
        if (fork() == 0) {
            usleep(300000);
            _exit(0);
        }
        return 5;
    }
    IS("traced child") {
        /* The parent dies by a signal while its child, a reaper of its own, ends well. */
        prctl(PR_SET_CHILD_SUBREAPER, 1);
        orphan(0);
        usleep(50000);
        raise(SIGTERM);
    }
    IS("large code") _exit(0x1234500 | 7);
    IS("negative code") _exit(-1);
    IS("stop and go") {
        if (fork() == 0) {
            kill(getppid(), SIGSTOP);
            usleep(50000);
            kill(getppid(), SIGCONT);
            _exit(0);
        }
        usleep(200000);
        return 5;
    }
    IS("core") {
        raise(SIGQUIT);
    }
    IS("killed by its child") {
        if (fork() == 0) {
            kill(getppid(), SIGKILL);
            _exit(0);
        }
        pause();
    }
    return 0;
}
