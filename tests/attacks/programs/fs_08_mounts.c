/* Tries to mount anything by the old and the new calls, and to take every cover of /proc away. */
#include "attack.h"
#include <linux/mount.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

#ifndef SYS_open_tree_attr
#define SYS_open_tree_attr 467
#endif
#ifndef SYS_statmount
#define SYS_statmount 457
#define SYS_listmount 458
#endif

static const char *KINDS[] = {
    "tmpfs", "proc", "sysfs", "devtmpfs", "devpts", "mqueue", "cgroup", "cgroup2", "overlay", "ramfs",
    "debugfs", "tracefs", "securityfs", "bpf", "fuse", "nfs", "ext4", "squashfs", "9p", "virtiofs",
    "binfmt_misc", "pstore",
};
static const char *COVERED[] = {
    "kallsyms", "kcore", "keys", "key-users", "kmsg", "config.gz", "cmdline", "crypto", "devices", "diskstats",
    "interrupts", "iomem", "ioports", "locks", "misc", "modules", "partitions", "slabinfo", "softirqs", "swaps",
    "timer_list", "vmallocinfo", "vmstat", "zoneinfo", "buddyinfo", "consoles", "sched_debug",
};

/* The whole mount table, to be compared: its length, and a sum of its bytes. */
static unsigned long table(void) {
    unsigned long sum = 0;
    FILE *file = fopen("/proc/self/mountinfo", "r");
    for (int c; file && (c = fgetc(file)) != EOF;) sum = sum * 31 + (unsigned long)c;
    if (file) fclose(file);
    return sum;
}

static void mount_all(void) {
    for (size_t i = 0; i < sizeof KINDS / sizeof *KINDS; i++) {
        const char *options = strcmp(KINDS[i], "overlay") ? NULL : "lowerdir=/usr,upperdir=/tmp/u,workdir=/tmp/w";
        attempt(named("mount %s", KINDS[i]), mount("x", "/tmp/here", KINDS[i], 0, options));
        attempt(named("fsopen %s", KINDS[i]), syscall(SYS_fsopen, KINDS[i], 0));
    }
    attempt("bind /proc", mount("/proc", "/tmp/here", NULL, MS_BIND, NULL));
    attempt("bind / with all below", mount("/", "/tmp/here", NULL, MS_BIND | MS_REC, NULL));
    attempt("move /usr", mount("/usr", "/tmp/here", NULL, MS_MOVE, NULL));
    attempt("make / shared", mount(NULL, "/", NULL, MS_SHARED | MS_REC, NULL));
    attempt("make / a slave", mount(NULL, "/", NULL, MS_SLAVE | MS_REC, NULL));
    attempt("fsconfig", syscall(SYS_fsconfig, 0, FSCONFIG_CMD_CREATE, NULL, NULL, 0));
    attempt("fsmount", syscall(SYS_fsmount, 0, 0, 0));
    attempt("fspick /", syscall(SYS_fspick, AT_FDCWD, "/", 0));
    attempt("open_tree /", syscall(SYS_open_tree, AT_FDCWD, "/", 0));
    attempt("open_tree, a copy of /", syscall(SYS_open_tree, AT_FDCWD, "/",
        OPEN_TREE_CLONE | 0x8000 /* AT_RECURSIVE */));
    attempt("open_tree_attr", syscall(SYS_open_tree_attr, AT_FDCWD, "/", OPEN_TREE_CLONE, NULL, 0));
    int slash = open("/", O_PATH);
    attempt("move_mount", syscall(SYS_move_mount, slash, "", AT_FDCWD, "/tmp/here", MOVE_MOUNT_F_EMPTY_PATH));
    attempt("pivot_root", syscall(SYS_pivot_root, "/tmp", "/tmp/here"));
    attempt("chroot", chroot("/tmp"));
    attempt("statmount", syscall(SYS_statmount, NULL, NULL, 0, 0));
    attempt("listmount", syscall(SYS_listmount, NULL, NULL, 0, 0));
    close(slash);
}

/* Takes everything away that the mount table names. */
static void unmount_all(void) {
    char line[1024], target[512];
    int number = 0;
    FILE *file = fopen("/proc/self/mountinfo", "r");
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "%*s %*s %*s %*s %511s", target) != 1) continue;
        number++;
        attempt(named("take away %s", target), umount2(target, MNT_DETACH));
        attempt(named("take away %s by force", target), umount2(target, MNT_FORCE));
        attempt(named("expire %s", target), umount2(target, MNT_EXPIRE));
    }
    if (file) fclose(file);
    report("mounts in the table", number > 5 ? "many" : "few");
}

static void *from_a_thread(void *unused) {
    attempt("mount from a thread", mount("x", "/tmp/here", "tmpfs", 0, NULL));
    return unused;
}

static long with_a_namespace(int flags) {
    if (unshare(flags) == -1) return -1;
    return mount("x", "/tmp/here", "tmpfs", 0, NULL);
}

int main(void) {
    mkdir("/tmp/here", 0755);
    mkdir("/tmp/u", 0755);
    mkdir("/tmp/w", 0755);
    unsigned long before = table();
    mount_all();
    unmount_all();
    pthread_t thread;
    if (pthread_create(&thread, NULL, from_a_thread, NULL) == 0) pthread_join(thread, NULL);
    in_child("mount in a new mount namespace", with_a_namespace(CLONE_NEWNS));
    in_child("mount in a new user namespace", with_a_namespace(CLONE_NEWUSER | CLONE_NEWNS));
    report("the mount table", table() == before ? "unchanged" : "changed");
    for (size_t i = 0; i < sizeof COVERED / sizeof *COVERED; i++) {
        char path[64], byte[1];
        snprintf(path, sizeof path, "/proc/%s", COVERED[i]);
        int file = open(path, O_RDONLY | O_NONBLOCK);
        if (file == -1) {
            report(named("cover of %s", path), errno_name(errno));
        } else {
            ssize_t length = read(file, byte, 1);
            report(named("cover of %s", path),
                length == 0 ? "empty" : length == 1 ? "readable" : errno_name(errno));
            close(file);
        }
    }
}
