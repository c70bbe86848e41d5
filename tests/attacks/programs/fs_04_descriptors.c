/* Looks for descriptors somebody forgot to close: a directory, a socket, a file of the host. */
#include "attack.h"
#include <dirent.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

enum { LAST = 65535 };

static const char *canary;

static long statted(int fd) {
    struct stat stat;
    return fstat(fd, &stat);
}

static long climbed(int fd) {
    char path[4400] = "../../../../../../../../../../../../../../../..";
    strncat(path, canary, sizeof path - strlen(path) - 1);
    return openat(fd, path, O_RDONLY);
}

static long looked_below(int fd) {
    return openat(fd, ".", O_RDONLY | O_DIRECTORY);
}

static long received(int fd) {
    char byte, space[CMSG_SPACE(64 * sizeof(int))];
    struct iovec vector = {&byte, 1};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = space,
        .msg_controllen = sizeof space};
    return recvmsg(fd, &message, MSG_DONTWAIT);
}

static long copied(int fd) {
    return fcntl(fd, F_DUPFD, 0);
}

static long waited(int fd) {
    siginfo_t info;
    return waitid(P_PIDFD, (id_t)fd, &info, WNOHANG | WEXITED);
}

/* One answer when all are the same, else the first that differs and its number. */
static void sweep(const char *name, long (*look)(int)) {
    for (int fd = 3; fd <= LAST; fd++) {
        errno = 0;
        long result = look(fd);
        if (result != -1 || errno != EBADF) {
            report(name, named("descriptor %d: %s", fd, answer_of(result, errno)));
            return;
        }
    }
    report(name, "EBADF");
}

static void list(void) {
    char seen[256] = "";
    DIR *dir = opendir("/proc/self/fd");
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        if (entry->d_name[0] != '.' && atoi(entry->d_name) != dirfd(dir)) {
            strncat(seen, entry->d_name, sizeof seen - strlen(seen) - 2);
            strcat(seen, " ");
        }
    }
    if (dir) closedir(dir);
    report("listed in /proc/self/fd", seen);
}

int main(int argc, char **argv) {
    (void)argc;
    canary = getenv("ATTACK_CANARY_FILE");
    if (!canary) return 1;
    sweep("fstat 3..65535", statted);
    sweep("openat the canary from 3..65535", climbed);
    sweep("openat . from 3..65535", looked_below);
    sweep("recvmsg on 3..65535", received);
    sweep("dup of 3..65535", copied);
    sweep("waitid on 3..65535", waited);
    list();
    /* The three that are there: nothing to climb from, nothing to receive by, no terminal to type into. */
    for (int fd = 0; fd < 3; fd++) {
        attempt(named("openat the canary from %d", fd), climbed(fd));
        attempt(named("recvmsg on %d", fd), received(fd));
        attempt(named("terminal of %d", fd), ioctl(fd, TIOCGWINSZ, &(struct winsize){0}));
        attempt(named("type into %d", fd), ioctl(fd, TIOCSTI, "x"));
    }
    attempt("controlling terminal", open("/dev/tty", O_RDWR));
    /* Once more as a program that was started by a program. */
    if (!getenv("SECOND")) {
        setenv("SECOND", "1", 1);
        execv("/proc/self/exe", argv);
        report("second time", errno_name(errno));
    }
}
