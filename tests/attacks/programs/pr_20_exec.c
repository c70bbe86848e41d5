/* Executes what should not be executed, and itself very often. */
#include "attack.h"
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

enum { SELF_EXECS = 4000 };

/* Runs it in a child: the errno when it could not be executed, else its exit code as text. */
static void run(const char *name, const char *path, char *const argv[], char *const env[]) {
    int told[2];
    if (pipe2(told, O_CLOEXEC) == -1) return;
    pid_t child = fork();
    if (child == 0) {
        close(1);
        execve(path, argv, env);
        int error = errno;
        _exit(write(told[1], &error, sizeof error) != sizeof error);
    }
    close(told[1]);
    int error = 0, status;
    ssize_t length = read(told[0], &error, sizeof error);
    close(told[0]);
    waitpid(child, &status, 0);
    if (length == sizeof error) report(name, errno_name(error));
    else if (WIFSIGNALED(status)) report(name, named("killed %s", signal_name(WTERMSIG(status))));
    else report(name, named("exit %d", WEXITSTATUS(status)));
}

static void script(const char *path, const char *interpreter, mode_t mode) {
    int file = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0755);
    if (file == -1) return;
    dprintf(file, "#!%s\n", interpreter);
    close(file);
    chmod(path, mode);
}

static void copy(const char *to) {
    char buffer[65536];
    int in = open("/proc/self/exe", O_RDONLY), out = open(to, O_CREAT | O_TRUNC | O_WRONLY, 0755);
    for (ssize_t length; (length = read(in, buffer, sizeof buffer)) > 0;) {
        if (write(out, buffer, (size_t)length) != length) break;
    }
    close(in);
    close(out);
}

int main(int argc, char **argv) {
    /* One of very many executions of itself. */
    if (argc == 3 && !strcmp(argv[1], "again")) {
        long left = atol(argv[2]);
        if (left == 0) {
            report("itself, again and again", "done");
            return 0;
        }
        char number[32];
        snprintf(number, sizeof number, "%ld", left - 1);
        execl("/proc/self/exe", argv[0], "again", number, (char *)NULL);
        report("itself, again and again", errno_name(errno));
        return 1;
    }
    if (argc == 2 && !strcmp(argv[1], "code")) return 42;

    static char large[2 << 20], single[(128 << 10) + 1], *many[1 << 19];
    char *few[] = {"x", NULL}, *none[] = {NULL}, *code[] = {"x", "code", NULL};
    memset(large, 'a', sizeof large - 1);
    memset(single, 'a', sizeof single - 1);
    for (size_t i = 0; i < sizeof many / sizeof *many - 1; i++) many[i] = "abcdefg";
    char *one_large[] = {"x", large, NULL}, *one_single[] = {"x", single, NULL};
    run("two megabytes of one argument", "/bin/true", one_large, none);
    run("two megabytes of one variable", "/bin/true", few, one_large);
    run("an argument just too long", "/bin/true", one_single, none);
    run("half a million arguments", "/bin/true", many, none);
    run("half a million variables", "/bin/true", few, many);

    script("/tmp/loop", "/tmp/loop", 0755);
    script("/tmp/ping", "/tmp/pong", 0755);
    script("/tmp/pong", "/tmp/ping", 0755);
    script("/tmp/chain0", "/bin/true", 0755);
    for (int i = 1; i < 10; i++) script(named("/tmp/chain%d", i), named("/tmp/chain%d", i - 1), 0755);
    script("/tmp/nowhere", "/nowhere", 0755);
    script("/tmp/closed", "/bin/true", 0644);
    script("/run/noexec", "/bin/true", 0755);
    script("/dev/shm/noexec", "/bin/true", 0755);
    int empty = open("/tmp/empty", O_CREAT | O_WRONLY, 0755);
    close(empty);
    int noise = open("/tmp/noise", O_CREAT | O_WRONLY, 0755);
    if (write(noise, "\177ELF garbage that is no program at all, only long enough to be looked at as one",
        80) != 80) return 1;
    close(noise);
    mkfifo("/tmp/fifo", 0755);
    symlink("/tmp/circle", "/tmp/circle");
    copy("/dev/shm/program");
    run("a script that is its own interpreter", "/tmp/loop", few, none);
    run("two scripts that are each other's", "/tmp/ping", few, none);
    run("ten scripts in a row", "/tmp/chain9", few, none);
    run("a script without its interpreter", "/tmp/nowhere", few, none);
    run("a script nobody may execute", "/tmp/closed", few, none);
    run("a script in shared memory", "/dev/shm/noexec", few, none);
    run("a program in shared memory", "/dev/shm/program", code, none);
    if (access("/run", W_OK) == 0) run("a script where nothing is executed", "/run/noexec", few, none);
    run("an empty file", "/tmp/empty", few, none);
    run("noise", "/tmp/noise", few, none);
    run("a pipe", "/tmp/fifo", few, none);
    run("a directory", "/tmp", few, none);
    run("a link to itself", "/tmp/circle", few, none);
    run("a device", "/dev/zero", few, none);
    run("nothing", "", few, none);
    run("no arguments at all", "/bin/true", none, none);

    copy("/tmp/deleted");
    int deleted = open("/tmp/deleted", O_RDONLY);
    unlink("/tmp/deleted");
    run("a program that is deleted", named("/proc/self/fd/%d", deleted), code, none);
    int memory = memfd_create("x", 0);
    char buffer[65536];
    lseek(deleted, 0, SEEK_SET);
    for (ssize_t length; memory != -1 && (length = read(deleted, buffer, sizeof buffer)) > 0;) {
        if (write(memory, buffer, (size_t)length) != length) return 1;
    }
    /* Without a cgroup there is no such thing. */
    if (memory == -1) attempt("a program in memory", memfd_create("x", 0));
    else run("a program in memory", named("/proc/self/fd/%d", memory), code, none);
    int being_written = open("/tmp/busy", O_CREAT | O_RDWR, 0755);
    copy("/tmp/busy");
    run("a program that is being written", "/tmp/busy", code, none);
    close(being_written);
    close(deleted);
    close(memory);

    fflush(stdout);
    char number[32];
    snprintf(number, sizeof number, "%d", SELF_EXECS);
    execl("/proc/self/exe", argv[0], "again", number, (char *)NULL);
    return 1;
}
