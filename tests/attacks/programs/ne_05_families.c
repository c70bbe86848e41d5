/* Asks for a socket of every family and kind, by every door to the call. */
#include "attack.h"
#include <sys/mman.h>
#include <sys/socket.h>

#define LAST_FAMILY 46

static const int KINDS[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_RAW, SOCK_SEQPACKET, SOCK_RDM, SOCK_DCCP, 10 /* PACKET */};

/* The descriptor's number does not matter. */
static long given(long fd) {
    if (fd < 0) return -1;
    close((int)fd);
    return 0;
}

static long raw_socket(unsigned long family, unsigned long kind, unsigned long protocol) {
    return given(syscall(SYS_socket, family, kind, protocol));
}

static long pair(int family, int kind) {
    int fds[2];
    if (syscall(SYS_socketpair, family, kind, 0, fds) == -1) return -1;
    close(fds[0]);
    close(fds[1]);
    return 0;
}

#ifdef __x86_64__
/* socket() of the 32-bit table, by socketcall and by its own number. Arguments have to lie below 4 GB. */
static long old_socketcall(unsigned family) {
    unsigned *words = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    words[0] = family, words[1] = SOCK_STREAM, words[2] = 0;
    long result;
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(102L), "b"(1L), "c"(words) : "memory", "r8", "r9", "r10", "r11");
    return (int)result < 0 ? (errno = -(int)result, -1) : 0;
}

static long old_socket(unsigned family) {
    long result;
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(359L), "b"((long)family), "c"((long)SOCK_STREAM), "d"(0L) : "memory", "r8", "r9", "r10", "r11");
    return (int)result < 0 ? (errno = -(int)result, -1) : 0;
}

static long x32_socket(unsigned family) {
    return given(syscall(SYS_socket | 0x40000000, family, SOCK_STREAM, 0));
}
#endif

int main(void) {
    for (int family = 0; family <= LAST_FAMILY; family++) {
        for (unsigned i = 0; i < sizeof KINDS / sizeof *KINDS; i++) {
            attempt(named("family %d kind %d", family, KINDS[i]), raw_socket(family, KINDS[i], 0));
        }
    }
    /* Two streams that are connected need no family beside the local one. */
    for (int family = 0; family <= LAST_FAMILY; family++) {
        attempt(named("pair %d", family), pair(family, SOCK_STREAM));
    }
    /* The kernel looks at the lower half of a word, and at the lower bits of a kind. */
    static const int BAD[] = {AF_PACKET, 38 /* ALG */, 40 /* VSOCK */, 29 /* CAN */, 30 /* TIPC */, 33 /* RXRPC */, 44 /* XDP */};
    for (unsigned i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        attempt(named("disguised %d, upper half set", BAD[i]), raw_socket(0x100000000UL | BAD[i], SOCK_RAW, 0));
        attempt(named("disguised %d, as inet in the upper half", BAD[i]), raw_socket((2UL << 32) | BAD[i], SOCK_STREAM, 0));
        attempt(named("disguised %d, flags", BAD[i]), raw_socket(BAD[i], SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    }
    attempt("disguised raw, flags", raw_socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 1));
    attempt("disguised raw, upper half set", raw_socket(AF_INET, 0x100000000UL | SOCK_RAW, 1));
    attempt("disguised raw v6", raw_socket(AF_INET6, SOCK_RAW | SOCK_CLOEXEC, 58));
    attempt("disguised negative family", raw_socket(-1UL, SOCK_STREAM, 0));
    /* Protocols that load a module or start another machine behind an ordinary family. */
    static const int PROTOCOLS[] = {2, 4, 33, 41, 46, 47, 50, 51, 98, 103, 108, 115, 132, 136, 143, 262};
    for (unsigned i = 0; i < sizeof PROTOCOLS / sizeof *PROTOCOLS; i++) {
        attempt(named("protocol %d stream", PROTOCOLS[i]), raw_socket(AF_INET, SOCK_STREAM, PROTOCOLS[i]));
        attempt(named("protocol %d datagram", PROTOCOLS[i]), raw_socket(AF_INET, SOCK_DGRAM, PROTOCOLS[i]));
        attempt(named("protocol %d v6", PROTOCOLS[i]), raw_socket(AF_INET6, SOCK_STREAM, PROTOCOLS[i]));
    }
#ifdef __x86_64__
    in_child("32-bit socketcall inet", old_socketcall(AF_INET));
    in_child("32-bit socketcall vsock", old_socketcall(40));
    in_child("32-bit socket alg", old_socket(38));
    in_child("32-bit x32 packet", x32_socket(AF_PACKET));
#endif
    char parameters[256] = {0};
    attempt("io_uring", given(syscall(SYS_io_uring_setup, 1, parameters)));
    return 0;
}
