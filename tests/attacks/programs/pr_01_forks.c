/* Makes processes until it is refused, in every way there is; bounded, so that it ends by itself where nothing refuses.
 * The first argument is how many are allowed. */
#include "attack.h"
#include <sched.h>

enum { MOST = 3000 };

static long by_fork(void) { return fork(); }
static long by_clone(void) { return syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0); }
static long with_its_own_parent(void) { return syscall(SYS_clone, SIGCHLD | CLONE_PARENT, 0, 0, 0, 0); }
static long without_a_signal(void) { return syscall(SYS_clone, 0, 0, 0, 0, 0); }

/* The child of vfork has to let its parent go on: it becomes a program that waits. */
static long by_vfork(void) {
    pid_t child = vfork();
    if (child == 0) {
        execl("/bin/sleep", "sleep", "60", (char *)NULL);
        _exit(1);
    }
    return child;
}

static void bomb(const char *name, long (*make)(void), int limit) {
    int made = 0;
    const char *refusal = "never refused";
    pid_t children[MOST];
    while (made < MOST) {
        long child = make();
        if (child == 0) {
            for (;;) pause();
        }
        if (child == -1) {
            refusal = errno_name(errno);
            break;
        }
        children[made++] = (pid_t)child;
    }
    /* Long enough for a supervisor that only looks from time to time. */
    usleep(60000);
    for (int i = 0; i < made; i++) kill(children[i], SIGKILL);
    for (int i = 0; i < made; i++) waitpid(children[i], NULL, __WALL);
    const char *count = made == 0 ? "none made" : made <= limit ? "within the limit" : named("%d of %d", made, limit);
    report(name, named("%s, %s", refusal, count));
    /* Children that are not ours are reaped by PID 1, in its own time. */
    usleep(50000);
}

int main(int argc, char **argv) {
    if (argc < 2) return 1;
    int limit = atoi(argv[1]);
    bomb("fork", by_fork, limit);
    bomb("vfork", by_vfork, limit);
    bomb("clone", by_clone, limit);
    bomb("clone without a signal", without_a_signal, limit);
    bomb("clone as a sibling", with_its_own_parent, limit);
    /* It was refused, and now it fails: the status says by what. */
    return 3;
}
