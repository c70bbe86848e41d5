/* What the C programs of the attack suite share. Include it first.
 *
 * A program tries things and prints one line for each: `attempt<TAB>NAME<TAB>ANSWER`. The answer is an errno name
 * (`EPERM`), `ok`, `killed SIGSYS`, or the number that came back. What is allowed is decided outside,
 * by the case.
 *
 *     attempt("open /etc/shadow", open("/etc/shadow", O_RDONLY));
 *     in_child("int 0x80", old_getpid());
 *     attempt(named("socket family %d", family), socket(family, SOCK_STREAM, 0));
 */
#ifndef ATTACK_H
#define ATTACK_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

/* Prints one line in one write, so that forks and kills cannot tear or double it. */
static inline void report(const char *name, const char *answer) {
    char line[2304];
    int length = snprintf(line, sizeof line, "attempt\t%.200s\t%.2000s\n", name, answer);
    for (char *at = line; length > 0;) {
        ssize_t done = write(1, at, (size_t)length);
        if (done <= 0) return;
        at += done;
        length -= (int)done;
    }
}

/* A name in the making. Four of them can be in use at once. */
__attribute__((format(printf, 1, 2))) static inline const char *named(const char *format, ...) {
    static char names[4][256];
    static unsigned next;
    char *name = names[next++ % 4];
    va_list words;
    va_start(words, format);
    vsnprintf(name, sizeof names[0], format, words);
    va_end(words);
    return name;
}

static inline const char *errno_name(int number) {
    const char *name = strerrorname_np(number);
    return name ? name : named("errno %d", number);
}

static inline const char *signal_name(int number) {
    const char *name = sigabbrev_np(number);
    return name ? named("SIG%s", name) : named("signal %d", number);
}

/* -1 is its errno, 0 is `ok`, anything else is itself. */
static inline const char *answer_of(long result, int error) {
    if (result == -1 && error != 0) return errno_name(error);
    if (result == 0) return "ok";
    return named("%ld", result);
}

/* Evaluates the expression and prints what came of it. */
#define attempt(name, ...)                                          \
    do {                                                            \
        errno = 0;                                                  \
        long result_ = (long)(__VA_ARGS__);                         \
        int error_ = errno;                                         \
        report((name), answer_of(result_, error_));                 \
    } while (0)

struct told {
    long result;
    int error;
};

static inline void wait_and_report(const char *name, pid_t child, int reader) {
    int status = 0;
    struct told told;
    while (waitpid(child, &status, 0) == -1 && errno == EINTR) {
    }
    /* The child has ended: what it told lies in the pipe, or it told nothing. The pipe does not block, because a
     * grandchild may still hold its other end. */
    ssize_t length = read(reader, &told, sizeof told);
    close(reader);
    if (WIFSIGNALED(status)) {
        report(name, named("killed %s", signal_name(WTERMSIG(status))));
    } else if (length == sizeof told) {
        report(name, answer_of(told.result, told.error));
    } else {
        report(name, named("exit %d", WEXITSTATUS(status)));
    }
}

/* The same in a forked child, whose death by a signal is an answer too. */
#define in_child(name, ...)                                         \
    do {                                                            \
        const char *name_ = (name);                                 \
        int pipe_[2] = {-1, -1};                                    \
        if (pipe2(pipe_, O_NONBLOCK) == -1) {                       \
            report(name_, named("pipe %s", errno_name(errno)));     \
            break;                                                  \
        }                                                           \
        pid_t child_ = fork();                                      \
        if (child_ == 0) {                                          \
            errno = 0;                                              \
            struct told told_ = {(long)(__VA_ARGS__), 0};           \
            told_.error = errno;                                    \
            ssize_t sent_ = write(pipe_[1], &told_, sizeof told_);  \
            _exit(sent_ == sizeof told_ ? 0 : 99);                  \
        }                                                           \
        close(pipe_[1]);                                            \
        if (child_ == -1) {                                         \
            report(name_, named("fork %s", errno_name(errno)));     \
            close(pipe_[0]);                                        \
            break;                                                  \
        }                                                           \
        wait_and_report(name_, child_, pipe_[0]);                   \
    } while (0)

#endif
