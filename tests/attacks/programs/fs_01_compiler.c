/* The compiler reads files too: at the time it runs, is any file of the host there? Each of these is readable
 * for everybody on common hosts, and none belongs into a sandbox. */
#include "attack.h"

#ifdef __has_include
#define LOOKED "looked"
#else
#define LOOKED "cannot look"
#endif

#if __has_include("/etc/profile")
#define PROFILE "seen"
#else
#define PROFILE "ENOENT"
#endif
#if __has_include("/etc/os-release") || __has_include("/etc/debian_version") || __has_include("/etc/issue")
#define RELEASE "seen"
#else
#define RELEASE "ENOENT"
#endif
#if __has_include("/etc/fstab") || __has_include("/etc/login.defs") || __has_include("/etc/crontab")
#define SETTINGS "seen"
#else
#define SETTINGS "ENOENT"
#endif
#if __has_include("../../../../../../../../etc/profile") || __has_include("/proc/self/root/etc/profile")
#define ROUNDABOUT "seen"
#else
#define ROUNDABOUT "ENOENT"
#endif
#if __has_include("/proc/self/status")
#define OWN "seen"
#else
#define OWN "ENOENT"
#endif

int main(void) {
    report("the compiler can look", LOOKED);
    /* So that a compiler which sees nothing at all is not taken for a wall. */
    report("the compiler sees its own process", OWN);
    report("the compiler reads /etc/profile", PROFILE);
    report("the compiler reads the release of the host", RELEASE);
    report("the compiler reads settings of the host", SETTINGS);
    report("the compiler reads by other paths", ROUNDABOUT);
}
