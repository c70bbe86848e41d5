/* Changes what kind of system the process lives in: without randomised addresses, with executable data, 32-bit. */
#include "attack.h"

#include <sys/personality.h>

#ifndef UNAME26
#define UNAME26 0x20000
#endif
#define QUERY 0xffffffffUL

static const struct {
    const char *name;
    unsigned long value;
} kinds[] = {
    {"no randomisation", ADDR_NO_RANDOMIZE},
    {"executable data", READ_IMPLIES_EXEC},
    {"32-bit", PER_LINUX32},
    {"32-bit, 3 GiB", PER_LINUX32_3GB},
    {"address limit", ADDR_LIMIT_32BIT},
    {"page at zero", MMAP_PAGE_ZERO},
    {"old layout", ADDR_COMPAT_LAYOUT},
    {"sticky timeouts", STICKY_TIMEOUTS},
    {"whole seconds", WHOLE_SECONDS},
    {"function pointers", FDPIC_FUNCPTRS},
    {"old name", UNAME26},
    {"SVR4", PER_SVR4},
    {"BSD", PER_BSD},
    {"everything but one bit", 0xfffffffeUL},
    {"no randomisation, garbage above", ADDR_NO_RANDOMIZE | 0x7fUL << 32},
    {"query, one bit missing", 0xfffffffbUL},
};

/* What it was before and is now, when it could be changed. */
static long become(unsigned long value) {
    long before = syscall(SYS_personality, value);
    if (before == -1) return -1;
    return 0x1000000 | syscall(SYS_personality, QUERY);
}

/* The tool that does it by name, for a program that then says where its stack is. */
static long by_tool(const char *flag) {
    pid_t pid = fork();
    if (pid == 0) {
        close(2);
        execlp("setarch", "setarch", flag, "true", NULL);
        _exit(99);
    }
    int status;
    waitpid(pid, &status, 0);
    return WEXITSTATUS(status);
}

int main(void) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        in_child(named("become %s", kinds[i].name), become(kinds[i].value));
    for (int bit = 0; bit < 32; bit++) in_child(named("become bit %d", bit), become(1UL << bit));
    in_child("tool: no randomisation", by_tool("--addr-no-randomize"));
    in_child("tool: executable data", by_tool("--read-implies-exec"));
    in_child("ask", syscall(SYS_personality, QUERY));
    in_child("ask, garbage above", syscall(SYS_personality, QUERY | 0x7fUL << 32));
    in_child("stay", syscall(SYS_personality, PER_LINUX));
    return 0;
}
