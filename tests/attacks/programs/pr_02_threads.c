/* Makes threads until it is refused: by the library, and by hand with stacks as small as they can be.
 * The first argument is how many are allowed; 100 000 are tried. */
#include "attack.h"
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>

enum { MOST = 100000, TINY = 4096 };

static atomic_int over;

static void *wait_for_the_end(void *unused) {
    while (!over) usleep(20000);
    return unused;
}

static int tiny_thread(void *unused) {
    for (;;) pause();
    return unused != NULL;
}

static const char *verdict(const char *refusal, int made, int limit) {
    const char *count = made == 0 ? "none made" : made <= limit ? "within the limit" : named("%d of %d", made, limit);
    return named("%s, %s", refusal, count);
}

static void by_library(int limit) {
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, PTHREAD_STACK_MIN);
    static pthread_t threads[MOST];
    int made = 0, error = 0;
    while (made < MOST && (error = pthread_create(&threads[made], &small, wait_for_the_end, NULL)) == 0) made++;
    /* Long enough for a supervisor that only looks from time to time. */
    usleep(60000);
    over = 1;
    for (int i = 0; i < made; i++) pthread_join(threads[i], NULL);
    report("threads", verdict(error ? errno_name(error) : "never refused", made, limit));
}

/* In a child, because threads made by hand are ended only with their process. */
static void by_hand(int limit) {
    char *stacks = mmap(NULL, (size_t)MOST * TINY, PROT_READ | PROT_WRITE,
        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stacks == MAP_FAILED) {
        report("tiny threads", "no address space");
        return;
    }
    int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM, made = 0;
    const char *refusal = "never refused";
    for (; made < MOST; made++) {
        if (clone(tiny_thread, stacks + (size_t)(made + 1) * TINY, flags, NULL) == -1) {
            refusal = errno_name(errno);
            break;
        }
    }
    report("tiny threads", verdict(refusal, made, limit));
}

/* Threads of threads: every one makes more until it is refused. */
static void *spread(void *unused) {
    pthread_t next;
    for (int i = 0; i < 1000 && !over; i++) {
        if (pthread_create(&next, NULL, spread, NULL) == 0) pthread_detach(next);
        else usleep(1000);
    }
    return unused;
}

int main(int argc, char **argv) {
    if (argc < 2) return 1;
    int limit = atoi(argv[1]);
    if (argc > 2) {
        puts("begin");
        fflush(stdout);
        for (;;) spread(NULL);
    }
    by_library(limit);
    pid_t child = fork();
    if (child == 0) {
        by_hand(limit);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    return 3;
}
