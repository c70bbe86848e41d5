/* Asks for what belongs to the machine: keyrings, other kernels, modules, swap, accounting, ports, names, its log.
 *
 * Arguments are as valid as an outsider can make them, so that a refusal is one of rights and not of form. What would
 * do harm if it were granted is aimed at things that do not exist. */
#include "attack.h"

#include <linux/fanotify.h>
#include <linux/reboot.h>
#include <sys/mman.h>

#ifndef MFD_CLOEXEC
#define MFD_CLOEXEC 1U
#endif

static char page[4096] __attribute__((aligned(4096)));

#define call(name, ...) in_child(#name, syscall(SYS_##name, ##__VA_ARGS__))

static void other_kernels(void) {
    int image = memfd_create("image", MFD_CLOEXEC);
    call(kexec_load, 0, 0, NULL, 0);
    call(kexec_file_load, image, -1, 0, "", 0);
    call(init_module, page, sizeof page, "");
    call(finit_module, image, "", 0);
    call(delete_module, "no_such_module", O_NONBLOCK);
    call(create_module, "no_such_module", 4096);
    call(get_kernel_syms, NULL);
    call(query_module, NULL, 0, NULL, 0, NULL);
}

static void switches(void) {
    static const unsigned commands[] = {LINUX_REBOOT_CMD_CAD_OFF, LINUX_REBOOT_CMD_CAD_ON, 0x5a5a};
    for (int i = 0; i < 3; i++)
        in_child(named("reboot %#x", commands[i]),
                 syscall(SYS_reboot, LINUX_REBOOT_MAGIC1, LINUX_REBOOT_MAGIC2, commands[i], NULL));
    call(swapon, "/tmp/none", 0);
    call(swapoff, "/tmp/none");
    call(acct, "/tmp/none");
    call(quotactl, 0x800007 << 8 /* Q_GETQUOTA */, "/dev/none", 0, page);
    call(quotactl_fd, 0, 0x800007 << 8, 0, page);
    call(sethostname, "intruder", 8);
    call(setdomainname, "intruder", 8);
    call(vhangup);
    call(syslog, 3 /* read all */, page, 16);
    in_child("syslog, size", syscall(SYS_syslog, 10, NULL, 0));
    call(_sysctl, page);
    call(nfsservctl, 0, page, page);
    call(ustat, 0, page);
    call(sysfs, 3);
    call(lookup_dcookie, 0, page, sizeof page);
    call(uselib, "/usr/bin/true");
}

static void hardware(void) {
    call(iopl, 3);
    in_child("iopl, back", syscall(SYS_iopl, 0));
    call(ioperm, 0x80, 1, 1);
    in_child("ioperm, off", syscall(SYS_ioperm, 0x80, 1, 0));
    for (int function = 0; function < 4; function++)
        in_child(named("modify_ldt %d", function), syscall(SYS_modify_ldt, function, page, 16));
    in_child("modify_ldt 0x11", syscall(SYS_modify_ldt, 0x11, page, 16));
}

static void watching(void) {
    call(fanotify_init, FAN_CLASS_NOTIF, O_RDONLY);
    in_child("fanotify_init, content", syscall(SYS_fanotify_init, FAN_CLASS_CONTENT, O_RDONLY));
    in_child("fanotify_init, unprivileged", syscall(SYS_fanotify_init, FAN_CLASS_NOTIF | FAN_REPORT_FID, 0));
    call(fanotify_mark, 0, FAN_MARK_ADD, FAN_OPEN, AT_FDCWD, "/");
}

static void placement(void) {
    unsigned long node = 1;
    int status = -1;
    void *pages[] = {page};
    page[0] = 1;
    call(mbind, page, sizeof page, 2 /* MPOL_BIND */, &node, 64, 0);
    call(set_mempolicy, 0, NULL, 0);
    call(get_mempolicy, &status, NULL, 0, NULL, 0);
    call(set_mempolicy_home_node, page, sizeof page, 0, 0);
    call(migrate_pages, 0, 64, &node, &node);
    call(move_pages, 0, 1, pages, NULL, &status, 0);
    in_child("move_pages of pid 1", syscall(SYS_move_pages, 1, 1, pages, NULL, &status, 0));
}

/* Keyrings belong to the machine too: they are not part of any namespace. */
static void keys(void) {
    call(add_key, "user", "intruder", "x", 1, -3 /* session */);
    in_child("add_key, keyring of the user", syscall(SYS_add_key, "keyring", "intruder", NULL, 0, -4));
    call(request_key, "user", "intruder", NULL, -3);
    for (int operation = 0; operation <= 32; operation++)
        in_child(named("keyctl %d", operation), syscall(SYS_keyctl, operation, -3, 0, 0, 0));
}

int main(void) {
    keys();
    other_kernels();
    switches();
    hardware();
    watching();
    placement();
    return 0;
}
