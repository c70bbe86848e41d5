/* Asks for rings, by which the kernel would do what the filter does not see, and for the older kind of them. */
#include "attack.h"

#include <linux/aio_abi.h>
#include <linux/io_uring.h>

#define USE_REGISTERED_RING (1U << 31)
#define REGISTER_OPCODES 40

static const unsigned modes[] = {
    0,
    IORING_SETUP_IOPOLL,
    IORING_SETUP_SQPOLL,
    IORING_SETUP_SQPOLL | IORING_SETUP_SQ_AFF,
    IORING_SETUP_CQSIZE,
    IORING_SETUP_CLAMP,
    IORING_SETUP_R_DISABLED,
    1U << 13 /* single issuer and deferred task run, since 6.1 */ | 1U << 12,
    1U << 14 /* memory of the caller, since 6.5 */,
    ~0U,
};

static long set_up(unsigned entries, unsigned mode) {
    struct io_uring_params params = {.flags = mode, .cq_entries = entries * 2};
    return syscall(SYS_io_uring_setup, entries, &params);
}

static long enter(int ring, unsigned flags) {
    return syscall(SYS_io_uring_enter, ring, 1, 0, flags, NULL, 0);
}

static long write_setting(const char *path) {
    int file = open(path, O_WRONLY);
    return file == -1 ? -1 : write(file, "0", 1);
}

int main(void) {
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        in_child(named("setup with flags %#x", modes[i]), set_up(1, modes[i]));
        in_child(named("setup of 4096 with flags %#x", modes[i]), set_up(4096, modes[i]));
    }
    in_child("setup without parameters", syscall(SYS_io_uring_setup, 1, NULL));
    for (int fd = -1; fd <= 4; fd++) {
        in_child(named("enter %d", fd), enter(fd, IORING_ENTER_GETEVENTS));
        in_child(named("enter registered %d", fd), enter(fd, 1U << 4 /* registered ring */));
    }
    for (unsigned code = 0; code < REGISTER_OPCODES; code++) {
        in_child(named("register %u", code), syscall(SYS_io_uring_register, 0, code, NULL, 0));
        in_child(named("register %u without a ring", code), syscall(SYS_io_uring_register, -1, code, NULL, 0));
        in_child(named("register %u, registered ring", code),
                 syscall(SYS_io_uring_register, 0, code | USE_REGISTERED_RING, NULL, 0));
    }
    aio_context_t context = 0;
    struct iocb block = {0}, *blocks[] = {&block};
    in_child("old setup", syscall(SYS_io_setup, 1, &context));
    in_child("old submit", syscall(SYS_io_submit, context, 1, blocks));
    in_child("old getevents", syscall(SYS_io_getevents, context, 0, 0, NULL, NULL));
    in_child("old pgetevents", syscall(SYS_io_pgetevents, context, 0, 0, NULL, NULL, NULL));
    in_child("old cancel", syscall(SYS_io_cancel, context, &block, NULL));
    in_child("old destroy", syscall(SYS_io_destroy, context));
    in_child("setting", write_setting("/proc/sys/kernel/io_uring_disabled"));
    return 0;
}
