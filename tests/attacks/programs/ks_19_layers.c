/* Tries what more than one layer stops, so that it must be stopped when any single one is missing; and says which
 * layers are there. Which answer comes depends on the layer that is met first. */
#include "attack.h"

#include <linux/capability.h>
#include <linux/netlink.h>
#include <linux/reboot.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/swap.h>
#include <sys/time.h>

static long write_to(const char *path, const char *text) {
    int file = open(path, O_WRONLY);
    return file == -1 ? -1 : write(file, text, strlen(text));
}

static long read_from(const char *path) {
    char text[64];
    int file = open(path, O_RDONLY);
    return file == -1 ? -1 : read(file, text, sizeof text);
}

static long in_new_namespace(int flags) {
    return syscall(SYS_unshare, flags) == -1 ? -1 : 1000 + (mount("none", "/tmp", "tmpfs", 0, NULL) == 0);
}

static long all_capabilities(void) {
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2] = {{~0U, ~0U, 0}, {~0U, ~0U, 0}};
    return syscall(SYS_capset, &head, data);
}

/* A set-user-id file of one's own changes nothing; its owner is what it was. */
static long set_id(void) {
    uid_t before = geteuid();
    if (system("cp /usr/bin/id /tmp/id && chmod 6755 /tmp/id") != 0) return -1;
    FILE *said = popen("/tmp/id -u", "r");
    unsigned now = 0;
    int read = fscanf(said, "%u", &now);
    pclose(said);
    return read == 1 && now == before ? 0 : 1000;
}

static void fact(const char *layer, int off) {
    report(named("fact: %s", layer), off ? "off" : "on");
}

static int writable(const char *path) {
    struct statvfs mounted;
    return statvfs(path, &mounted) == 0 && !(mounted.f_flag & ST_RDONLY);
}

/* Which layers are there, by what only they do. */
static void facts(void) {
    char status[8192] = "";
    int file = open("/proc/self/status", O_RDONLY);
    if (read(file, status, sizeof status - 1) <= 0) status[0] = 0;
    fact("seccomp", !strstr(status, "Seccomp:\t2"));
    fact("landlock", write_to("/proc/self/comm", "x") != -1);
    fact("capabilities", !strstr(status, "CapBnd:\t0000000000000000"));
    fact("proc-masks", read_from("/proc/cmdline") > 0);
    fact("proc-read-only", writable("/proc/sys"));
    fact("read-only", writable("/usr"));
    fact("hide-pid", read_from("/proc/1/status") > 0);
}

int main(void) {
    facts();
    in_child("namespace: user", in_new_namespace(CLONE_NEWUSER));
    in_child("namespace: user and mounts", in_new_namespace(CLONE_NEWUSER | CLONE_NEWNS));
    in_child("namespace: mounts", in_new_namespace(CLONE_NEWNS));
    in_child("namespace: network", in_new_namespace(CLONE_NEWNET));
    in_child("mount: tmpfs", mount("none", "/tmp", "tmpfs", 0, NULL));
    in_child("mount: writable /usr", mount("none", "/usr", NULL, MS_REMOUNT | MS_BIND, NULL));
    in_child("mount: away from /proc/cmdline", umount2("/proc/cmdline", MNT_DETACH));
    in_child("mount: other root", chroot("/tmp"));
    in_child("write: /etc", open("/etc/intruder", O_CREAT | O_WRONLY, 0600));
    in_child("write: a program", write_to("/usr/bin/true", "x"));
    in_child("write: core_pattern", write_to("/proc/sys/kernel/core_pattern", "|/tmp/x"));
    in_child("write: host name", write_to("/proc/sys/kernel/hostname", "x"));
    in_child("write: user namespaces", write_to("/proc/sys/user/max_user_namespaces", "9"));
    in_child("write: id map", write_to("/proc/self/uid_map", "0 0 1"));
    in_child("read: shadow", read_from("/etc/shadow"));
    in_child("read: memory of pid 1", read_from("/proc/1/mem"));
    in_child("read: environment of pid 1", read_from("/proc/1/environ"));
    in_child("trace: pid 1", ptrace(PTRACE_ATTACH, 1, 0, 0));
    in_child("trace: seize pid 1", ptrace(PTRACE_SEIZE, 1, 0, 0));
    in_child("rights: capabilities", all_capabilities());
    in_child("rights: root", setresuid(0, 0, 0));
    in_child("rights: new privileges", prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0));
    in_child("set-id file", set_id());
    in_child("device: block", mknod("/tmp/disk", S_IFBLK | 0600, 0x800));
    in_child("device: memory", mknod("/tmp/mem", S_IFCHR | 0600, 0x101));
    in_child("socket: raw", socket(AF_INET, SOCK_RAW, 1));
    in_child("socket: packet", socket(AF_PACKET, SOCK_RAW, 0));
    in_child("machine: swap", swapon("/tmp/none", 0));
    in_child("machine: clock", settimeofday(&(struct timeval){0, 0}, NULL));
    in_child("machine: restart",
             syscall(SYS_reboot, LINUX_REBOOT_MAGIC1, LINUX_REBOOT_MAGIC2, LINUX_REBOOT_CMD_CAD_OFF, 0));
    in_child("machine: log", syscall(SYS_syslog, 3, (char[16]){0}, 16));
    in_child("machine: name", sethostname("x", 1));
    /* Whoever can send it, pid 1 of a namespace does not die of it. */
    in_child("pid 1: kill", kill(1, SIGKILL));
    /* If it did, nobody would be left to say so. */
    usleep(100000);
    attempt("pid 1: lives", kill(1, 0) == -1 && errno == ESRCH ? -1 : 0);
    return 0;
}
