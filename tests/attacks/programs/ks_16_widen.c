/* Tries to loosen what holds it: further filters, other modes of them, privileges, capabilities. After each way that
 * may well succeed, it looks whether anything more is allowed than before. */
#include "attack.h"

#include <grp.h>

#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/securebits.h>
#include <sched.h>
#include <stddef.h>
#include <sys/prctl.h>

#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif
#define CAPABILITIES 41

/* Allows everything, and answers unshare in the way that is tried. */
static struct sock_filter rules[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_unshare, 0, 1),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
};
static struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
#define FOR_UNSHARE rules[2].k

/* What is refused, tried again: 0 when all of it is refused as ever, else 1000 and a bit for each that is not. */
static long wider(void) {
    long got = (syscall(SYS_unshare, CLONE_NEWUSER) == 0) |
               (syscall(SYS_bpf, 0, NULL, 0) != -1 || errno != EPERM) << 1 |
               (syscall(SYS_keyctl, 0, 0, 0) != -1 || errno != EPERM) << 2 |
               (syscall(SYS_io_uring_setup, 1, NULL) != -1 || errno != EPERM) << 3;
    return got == 0 ? 0 : 1000 + got;
}

static long by_call(unsigned flags, unsigned action) {
    FOR_UNSHARE = action;
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program) == -1) return -1;
    /* With a listener the next refused call would wait for its answer. */
    return flags & SECCOMP_FILTER_FLAG_NEW_LISTENER ? 2000 : wider();
}

static long by_prctl(void) {
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == -1 ? -1 : wider();
}

static long all_capabilities(unsigned effective, unsigned permitted, unsigned inheritable) {
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2] = {{effective, permitted, inheritable}, {effective, permitted, inheritable}};
    return syscall(SYS_capset, &head, data);
}

static void filters(void) {
    in_child("widen: permissive by prctl", by_prctl());
    in_child("widen: permissive by seccomp", by_call(0, SECCOMP_RET_ALLOW));
    in_child("widen: permissive for all threads", by_call(SECCOMP_FILTER_FLAG_TSYNC, SECCOMP_RET_ALLOW));
    in_child("widen: permissive and logged", by_call(SECCOMP_FILTER_FLAG_LOG, SECCOMP_RET_ALLOW));
    in_child("widen: speculation", by_call(SECCOMP_FILTER_FLAG_SPEC_ALLOW, SECCOMP_RET_ALLOW));
    in_child("widen: log instead", by_call(0, SECCOMP_RET_LOG));
    in_child("widen: trace instead", by_call(0, SECCOMP_RET_TRACE));
    in_child("widen: ask a listener that is not there", by_call(0, SECCOMP_RET_USER_NOTIF));
    in_child("widen: one hundred permissive ones", ({
                 long result = 0;
                 for (int i = 0; i < 100 && result == 0; i++) result = by_call(0, SECCOMP_RET_ALLOW);
                 result;
             }));
    static const unsigned listeners[] = {
        SECCOMP_FILTER_FLAG_NEW_LISTENER,
        SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_LOG,
        SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_TSYNC_ESRCH,
        SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV,
    };
    for (int i = 0; i < 4; i++)
        in_child(named("listener: flags %#x", listeners[i]), by_call(listeners[i], SECCOMP_RET_USER_NOTIF));
    in_child("listener: garbage above",
             syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 1L << 40 | SECCOMP_FILTER_FLAG_NEW_LISTENER, &program));
    in_child("mode: strict by prctl", prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0));
    in_child("mode: strict by seccomp", syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, NULL));
    in_child("mode: off by prctl", prctl(PR_SET_SECCOMP, SECCOMP_MODE_DISABLED, 0, 0, 0));
    in_child("mode: dispatch, then look",
             prctl(59 /* PR_SET_SYSCALL_USER_DISPATCH */, 0, 0, 0, 0) == -1 ? -1 : wider());
}

static void privileges(void) {
    in_child("privileges: new ones again", prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0));
    in_child("privileges: new ones again, oddly", prctl(PR_SET_NO_NEW_PRIVS, 2, 0, 0, 0));
    attempt("still: no new privileges", prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
    attempt("still: filtered", prctl(PR_GET_SECCOMP, 0, 0, 0, 0));
    in_child("become: root", setresuid(0, 0, 0));
    in_child("become: group root", setresgid(0, 0, 0));
    in_child("become: another group", setgroups(1, (gid_t[]){0}));
}

static void capabilities(void) {
    in_child("capability: all", all_capabilities(~0U, ~0U, ~0U));
    in_child("capability: permitted", all_capabilities(0, ~0U, 0));
    in_child("capability: inheritable", all_capabilities(0, 0, ~0U));
    for (int one = 0; one < CAPABILITIES; one++) {
        in_child(named("capability: ambient %d", one), prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, one, 0, 0));
        in_child(named("capability: one %d", one), all_capabilities(0, one < 32 ? 1U << one : 0, 0) == -1
                                                       ? -1
                                                       : prctl(PR_CAPBSET_DROP, one, 0, 0, 0));
    }
    static const unsigned long bits[] = {0, SECBIT_KEEP_CAPS, SECBIT_NOROOT, SECBIT_NO_SETUID_FIXUP};
    for (int i = 0; i < 4; i++)
        in_child(named("secure bits: %#lx", bits[i]), prctl(PR_SET_SECUREBITS, bits[i], 0, 0, 0));
    in_child("secure bits: keep capabilities", prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0));
}

int main(void) {
    filters();
    privileges();
    capabilities();
    attempt("still: nothing wider", wider());
    return 0;
}
