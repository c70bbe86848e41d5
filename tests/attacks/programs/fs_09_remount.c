/* Tries to make what is read-only writable, and then to change it in every way a file system can be changed.
 * Each change would leave things as they are, or be taken back: the suite may stand on somebody's machine. */
#include "attack.h"
#include <dirent.h>
#include <linux/mount.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/statvfs.h>
#include <sys/un.h>
#include <sys/xattr.h>

static const char *TREES[] = {
    "/", "/usr", "/usr/bin", "/usr/lib", "/etc", "/dev", "/dev/null", "/proc", "/proc/sys", "/proc/irq",
    "/proc/bus", "/proc/fs",
};
static const char *PLACES[] = {
    "/", "/usr", "/usr/bin", "/usr/lib", "/usr/local", "/etc", "/etc/ssl", "/dev", "/var", "/root", "/proc",
    "/proc/sys/kernel",
};
static const char *FILES[] = {
    "/usr/bin/env", "/bin/sh", "/etc/passwd", "/etc/hosts", "/etc/ld.so.cache", "/usr",
};
static const char *SETTINGS[] = {
    "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/kernel/hostname",
    "/proc/sys/kernel/domainname", "/proc/sys/kernel/ns_last_pid", "/proc/sys/kernel/shmmax",
    "/proc/sys/kernel/core_uses_pid", "/proc/sys/kernel/randomize_va_space", "/proc/sys/vm/overcommit_memory",
    "/proc/sys/vm/drop_caches", "/proc/sys/vm/memfd_noexec", "/proc/sys/fs/binfmt_misc/register",
    "/proc/sys/fs/mqueue/queues_max", "/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/ipv4/ping_group_range",
    "/proc/sys/user/max_user_namespaces", "/proc/sysrq-trigger", "/proc/irq/default_smp_affinity",
    "/proc/acpi/wakeup", "/proc/mtrr",
};
#define EACH(list, item) for (size_t at_ = 0; at_ < sizeof list / sizeof *list && (item = list[at_]); at_++)

static void remount(const char *tree) {
    struct statvfs fs;
    report(named("mount of %s", tree), statvfs(tree, &fs) ? "unknown" : fs.f_flag & ST_RDONLY ? "read-only" : "writable");
    unsigned long bits = MS_REMOUNT | MS_BIND;
    struct mount_attr writable = {
        .attr_clr = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOEXEC | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID};
    attempt(named("remount %s", tree), mount(NULL, tree, NULL, bits, NULL));
    attempt(named("remount %s with its flags", tree), mount(NULL, tree, NULL,
        bits | MS_NOSUID | MS_NODEV | MS_RELATIME, NULL));
    attempt(named("remount the file system of %s", tree), mount(NULL, tree, NULL, MS_REMOUNT, NULL));
    attempt(named("mount_setattr %s", tree), syscall(SYS_mount_setattr, AT_FDCWD, tree, 0, &writable,
        sizeof writable));
    attempt(named("mount_setattr %s and below", tree), syscall(SYS_mount_setattr, AT_FDCWD, tree,
        0x8000 /* AT_RECURSIVE */, &writable, sizeof writable));
    attempt(named("fspick %s", tree), syscall(SYS_fspick, AT_FDCWD, tree, 0));
}

/* Anything new is removed at once. */
static long and_remove(const char *path, long result) {
    int error = errno;
    if (result != -1 && remove(path) == -1) perror(path);
    errno = error;
    return result;
}

static long bound(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strncpy(address.sun_path, path, sizeof address.sun_path - 1);
    int s = socket(AF_UNIX, SOCK_STREAM, 0);
    long result = bind(s, (struct sockaddr *)&address, sizeof address);
    int error = errno;
    close(s);
    errno = error;
    return result;
}

static void make(const char *place) {
    char path[256];
    snprintf(path, sizeof path, "%s/intruder-%d", place, getpid());
    attempt(named("make a file in %s", place), and_remove(path, open(path, O_CREAT | O_EXCL | O_WRONLY, 0600)));
    attempt(named("make a nameless file in %s", place), open(place, O_TMPFILE | O_WRONLY, 0600));
    attempt(named("make a directory in %s", place), and_remove(path, mkdir(path, 0700)));
    attempt(named("make a link in %s", place), and_remove(path, symlink("x", path)));
    attempt(named("make a pipe in %s", place), and_remove(path, mkfifo(path, 0600)));
    attempt(named("make a socket in %s", place), and_remove(path, bound(path)));
    attempt(named("make a hard link in %s", place), and_remove(path, link("own", path)));
    attempt(named("move a file to %s", place), and_remove(path, rename("own", path)));
}

/* Each of these changes nothing where it is allowed. */
static void change(const char *file) {
    struct stat now;
    if (stat(file, &now) == -1) return;
    struct timespec same[2] = {now.st_atim, now.st_mtim};
    attempt(named("open %s for writing", file), open(file, O_WRONLY));
    attempt(named("truncate %s", file), truncate(file, now.st_size));
    attempt(named("chmod %s", file), chmod(file, now.st_mode & 07777));
    attempt(named("chown %s", file), chown(file, (uid_t)-1, (gid_t)-1));
    attempt(named("touch %s", file), utimensat(AT_FDCWD, file, same, 0));
    attempt(named("rename %s", file), rename(file, file));
    attempt(named("give %s an attribute", file), setxattr(file, "user.intruder", "", 0, 0));
    attempt(named("remove an attribute of %s", file), removexattr(file, "user.intruder"));
}

/* Opens everything below for writing, and counts. */
static void sweep(const char *dir, int *tried, char *opened, size_t most) {
    DIR *listing = opendir(dir);
    if (!listing) return;
    for (struct dirent *entry; (entry = readdir(listing));) {
        char path[1024];
        struct stat kind;
        snprintf(path, sizeof path, "%s/%s", dir, entry->d_name);
        if (entry->d_name[0] == '.' || lstat(path, &kind) == -1) continue;
        if (S_ISDIR(kind.st_mode)) {
            sweep(path, tried, opened, most);
            continue;
        }
        int file = open(path, O_WRONLY | O_NONBLOCK);
        (*tried)++;
        if (file == -1) continue;
        close(file);
        if (strlen(opened) + strlen(path) + 2 < most) strcat(strcat(opened, " "), path);
    }
    closedir(listing);
}

int main(void) {
    const char *item;
    close(open("own", O_CREAT | O_WRONLY, 0600));
    EACH(TREES, item) remount(item);
    EACH(PLACES, item) make(item);
    EACH(FILES, item) change(item);
    EACH(SETTINGS, item) attempt(named("setting %s", item), open(item, O_WRONLY));
    char opened[1500] = "none";
    int tried = 0;
    sweep("/proc/sys", &tried, opened, sizeof opened);
    report("kernel settings tried", tried > 300 ? "many" : "few");
    report("kernel settings opened for writing", opened);
}
