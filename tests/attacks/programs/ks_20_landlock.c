/* Tries what Landlock refuses: what no other wall would stop, and what others stop too but must not be alone in doing.
 *
 * In a build that leaves the root of the host in place, the word it is started with says where. Then what it tries on the
 * host meets Landlock alone, and must meet the same refusals. */
#include "attack.h"

#include <linux/landlock.h>
#include <linux/random.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

/* What the suite says of the host; without it nothing would be tried. */
static const char *given(const char *name) {
    const char *value = getenv(name);
    if (value == NULL) exit(98);
    return value;
}

static long write_to(const char *path) {
    int file = open(path, O_WRONLY);
    return file == -1 ? -1 : write(file, "x", 1);
}

static long read_from(const char *path) {
    char byte;
    int file = open(path, O_RDONLY);
    return file == -1 ? -1 : read(file, &byte, 1) == 1 ? 0 : -2;
}

static long make(const char *path) {
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (file == -1) return -1;
    unlink(path);
    return 1000;
}

static long entropy(const char *path) {
    int count, file = open(path, O_RDONLY);
    return file == -1 ? -1 : ioctl(file, RNDGETENTCNT, &count);
}

static long run(const char *path) {
    return execl(path, path, "--version", NULL);
}

static long call(const char *path, const char *name) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    socklen_t length = sizeof address;
    if (path) strncpy(address.sun_path, path, sizeof address.sun_path - 1);
    if (name) {
        strncpy(address.sun_path + 1, name, sizeof address.sun_path - 2);
        length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
    }
    int line = socket(AF_UNIX, SOCK_STREAM, 0);
    return line == -1 ? -1 : connect(line, (struct sockaddr *)&address, length);
}

static long bind_at(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strncpy(address.sun_path, path, sizeof address.sun_path - 1);
    int line = socket(AF_UNIX, SOCK_STREAM, 0);
    return line == -1 ? -1 : bind(line, (struct sockaddr *)&address, sizeof address);
}

/* Only ever narrower: a ruleset of its own that allows everything it can name. */
static long further_ruleset(void) {
    struct landlock_ruleset_attr handled = {.handled_access_fs = LANDLOCK_ACCESS_FS_EXECUTE};
    struct landlock_path_beneath_attr rule = {.allowed_access = LANDLOCK_ACCESS_FS_EXECUTE};
    long set = syscall(SYS_landlock_create_ruleset, &handled, sizeof handled, 0);
    rule.parent_fd = open("/", O_PATH);
    if (set == -1 || syscall(SYS_landlock_add_rule, set, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) == -1) return -1;
    if (syscall(SYS_landlock_restrict_self, set, 0) == -1) return -1;
    return write_to("/proc/self/comm");
}

/* No other wall stops these: the files are the program's own, and its mounts let them be written. */
static void landlock_alone(void) {
    in_child("alone: rename itself by /proc", write_to("/proc/self/comm"));
    in_child("alone: become likelier to be killed", write_to("/proc/self/oom_score_adj"));
    in_child("alone: choose what is dumped", write_to("/proc/self/coredump_filter"));
    in_child("alone: write own memory", write_to("/proc/self/mem"));
    in_child("alone: ioctl of a device", entropy("/dev/urandom"));
    in_child("alone: after a ruleset of its own", further_ruleset());
    in_child("alone: signal pid 1", kill(1, 0));
}

static void outside(void) {
    static const char *const directories[] = {"/",    "/etc",  "/usr",  "/usr/bin", "/proc",
                                              "/dev", "/home", "/root", "/var",     "/opt"};
    for (size_t i = 0; i < sizeof directories / sizeof *directories; i++) {
        const char *in = directories[i];
        in_child(named("outside: make a file in %s", in), make(named("%s/intruder", in)));
        in_child(named("outside: make a directory in %s", in), mkdir(named("%s/intruder", in), 0700));
        in_child(named("outside: make a link in %s", in), symlink("/", named("%s/intruder", in)));
        in_child(named("outside: make a socket in %s", in), bind_at(named("%s/intruder", in)));
        in_child(named("outside: make a pipe in %s", in), mkfifo(named("%s/intruder", in), 0600));
    }
    in_child("outside: write /etc/passwd", write_to("/etc/passwd"));
    in_child("outside: cut /etc/passwd", truncate("/etc/passwd", 0));
    in_child("outside: remove /etc/passwd", unlink("/etc/passwd"));
    in_child("outside: rename /etc/passwd", rename("/etc/passwd", "/tmp/passwd"));
    in_child("outside: link /etc/passwd", link("/etc/passwd", "/tmp/passwd"));
    in_child("outside: write a program", write_to("/usr/bin/true"));
}

static void host(const char *root) {
    const char *canary = named("%s%s", root, given("ATTACK_CANARY_FILE"));
    const char *state = named("%s%s", root, given("ATTACK_STATE_DIR"));
    in_child("host: read the canary", read_from(canary));
    in_child("host: write the canary", write_to(canary));
    in_child("host: cut the canary", truncate(canary, 0));
    in_child("host: remove the canary", unlink(canary));
    in_child("host: make a file", make(named("%s/intruder", state)));
    in_child("host: make a directory", mkdir(named("%s/intruder", state), 0700));
    in_child("host: make a socket", bind_at(named("%s/intruder", state)));
    in_child("host: list", open(state, O_RDONLY | O_DIRECTORY));
    in_child("host: run a program", run(named("%s%s", root, given("ATTACK_EXECUTABLE"))));
    /* Landlock asks about connecting to a path only since its ninth version. */
    if (!*root) in_child("host: socket with a path", call(given("ATTACK_SOCKET"), NULL));
}

int main(int argc, char **argv) {
    landlock_alone();
    outside();
    host(argc > 1 ? argv[1] : "");
    in_child("scope: abstract socket", call(NULL, given("ATTACK_ABSTRACT")));
    attempt("version", syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION));
    return 0;
}
