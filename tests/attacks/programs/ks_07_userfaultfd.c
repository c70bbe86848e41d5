/* Asks to handle page faults itself, by which it would stop the kernel in the middle of a copy. */
#include "attack.h"

#define USER_MODE_ONLY 1

static long write_setting(const char *path) {
    int file = open(path, O_WRONLY);
    return file == -1 ? -1 : write(file, "1", 1);
}

int main(void) {
    static const int flags[] = {0, O_CLOEXEC, O_NONBLOCK, O_CLOEXEC | O_NONBLOCK};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        in_child(named("call with %#x", flags[i]), syscall(SYS_userfaultfd, flags[i]));
        in_child(named("call for user mode with %#x", flags[i]), syscall(SYS_userfaultfd, flags[i] | USER_MODE_ONLY));
        in_child(named("call with %#x, garbage above", flags[i]), syscall(SYS_userfaultfd, flags[i] | 1L << 40));
    }
    in_child("call with everything", syscall(SYS_userfaultfd, -1));
    in_child("device /dev/userfaultfd", open("/dev/userfaultfd", O_RDWR));
    in_child("device by /proc", open("/proc/1/root/dev/userfaultfd", O_RDWR));
    /* The same power by another door: a file whose reads somebody of one's own answers. */
    in_child("device /dev/fuse", open("/dev/fuse", O_RDWR));
    in_child("device /dev/cuse", open("/dev/cuse", O_RDWR));
    in_child("setting", write_setting("/proc/sys/vm/unprivileged_userfaultfd"));
    return 0;
}
