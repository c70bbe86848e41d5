/* Leaves daemons behind: in sessions of their own, without open files, deaf to every signal, and busy with a heartbeat.
 * Their first argument is a word by which they can be found from outside. */
#include "attack.h"
#include <sys/prctl.h>
#include <time.h>

static void live(const char *word) {
    for (int fd = 0; fd < 64; fd++) close(fd);
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    for (int signal_ = 1; signal_ < 65; signal_++) signal(signal_, SIG_IGN);
    prctl(PR_SET_PDEATHSIG, 0);
    prctl(PR_SET_NAME, word);
    if (chdir("/") == -1) return;
    for (;;) {
        int file = open("/tmp/heartbeat", O_CREAT | O_WRONLY | O_APPEND, 0644);
        if (write(file, ".", 1) == -1) return;
        close(file);
        usleep(10000);
    }
}

int main(int argc, char **argv) {
    if (argc < 2) return 1;
    for (int i = 0; i < 4; i++) {
        if (fork() == 0) {
            setsid();
            if (fork() == 0) {
                setsid();
                /* The third keeps forking, so that whoever is about to be killed is already another. */
                for (int rounds = 0; i == 3 && rounds < 100000; rounds++) {
                    prctl(PR_SET_NAME, argv[1]);
                    if (fork() != 0) _exit(0);
                }
                live(argv[1]);
            }
            _exit(0);
        }
    }
    while (wait(NULL) > 0) {
    }
    /* They live when they have been heard. */
    struct timespec begin, now;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do {
        usleep(10000);
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (access("/tmp/heartbeat", F_OK) == -1 && now.tv_sec - begin.tv_sec < 5);
    attempt("heartbeat while it runs", access("/tmp/heartbeat", F_OK));
    usleep(argc > 2 ? (useconds_t)atoi(argv[2]) * 1000 : 0);
    return 7;
}
