/* Makes the kernel remember more than this program may have, while its own pages stay few. Its word says how.
 * Stops by itself at about four times the limit. */
#include "attack.h"
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <netinet/in.h>

#define MEGABYTE (1L << 20)
#define MUCH (256 * MEGABYTE)

/* Each process has its own descriptors, so more processes hold more. A descriptor table that is full, a quota
 * of the user, anything that is refused ends one of them. */
static void in_processes(int count, void (*fill)(void)) {
    for (int i = 0; i < count; i++) {
        if (fork() == 0) {
            fill();
            pause();
        }
    }
}

/* One page of tables for every two megabytes that are looked at; the page that is seen is the one of zeroes. */
static void page_tables(void) {
    long size = 128L << 30;
    volatile char *at = mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return;
    madvise((void *)at, (size_t)size, MADV_NOHUGEPAGE);
    for (long i = 0; i < size; i += 2 * MEGABYTE) (void)at[i];
}

static void fill_sockets(void) {
    static char data[64 << 10];
    int pair[2];
    while (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0) {
        int most = 1 << 20;
        setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &most, sizeof most);
        while (send(pair[0], data, sizeof data, MSG_DONTWAIT) > 0) {
        }
    }
}

/* A connection to itself: what nobody reads stays in the kernel, and there is enough of it in a few of them. */
static void internet(int kind) {
    static char data[60000];
    int most = 4 << 20;
    int server = socket(AF_INET, kind, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof at;
    setsockopt(server, SOL_SOCKET, SO_RCVBUF, &most, sizeof most);
    if (bind(server, (void *)&at, length) || getsockname(server, (void *)&at, &length)) return;
    if (kind == SOCK_STREAM && listen(server, 16)) return;
    int client = socket(AF_INET, kind, 0);
    setsockopt(client, SOL_SOCKET, SO_SNDBUF, &most, sizeof most);
    if (client == -1 || connect(client, (void *)&at, length)) return;
    /* Datagrams that find no room are dropped without a word. */
    for (int i = 0; i < 200 && send(client, data, sizeof data, MSG_DONTWAIT) > 0; i++) {
    }
}

static void tcp(void) {
    for (int i = 0; i < 25; i++) internet(SOCK_STREAM);
}

static void udp(void) {
    for (int i = 0; i < 40; i++) internet(SOCK_DGRAM);
}

static void fill_pipes(void) {
    static char data[1 << 20];
    int ends[2];
    while (pipe2(ends, O_NONBLOCK) == 0) {
        fcntl(ends[1], F_SETPIPE_SZ, 1 << 20);
        while (write(ends[1], data, sizeof data) > 0) {
        }
    }
}

static void message_queues(void) {
    struct { long type; char text[8000]; } message = {1, {0}};
    for (long done = 0; done < MUCH;) {
        int queue = msgget(IPC_PRIVATE, 0600);
        if (queue == -1) return;
        while (msgsnd(queue, &message, sizeof message.text, IPC_NOWAIT) == 0) done += sizeof message;
    }
}

static void semaphores(void) {
    for (long done = 0; done < MUCH; done += 32000 * 64L) {
        if (semget(IPC_PRIVATE, 32000, 0600) == -1) return;
    }
}

static void fill_watchers(void) {
    int fds[500], count = 0;
    while (count < 500 && (fds[count] = eventfd(0, 0)) >= 0) count++;
    for (int set; (set = epoll_create1(0)) >= 0;) {
        for (int i = 0; i < count; i++) {
            struct epoll_event event = {EPOLLIN, {0}};
            if (epoll_ctl(set, EPOLL_CTL_ADD, fds[i], &event)) break;
        }
    }
}

/* Descriptions of many small mappings. */
static void mappings(void) {
    for (long i = 0; i < 60000; i++) mmap(NULL, 4096, i % 2 ? PROT_READ : PROT_NONE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

static void many_files(void) {
    for (long i = 0; i < MUCH / 1000; i++) {
        char name[64];
        snprintf(name, sizeof name, "/tmp/file-%ld", i);
        if (mknod(name, S_IFREG | 0600, 0)) return;
    }
}

int main(int argc, char **argv) {
    const char *word = argc > 1 ? argv[1] : "";
    report("begin", word);
#define IS(name) if (!strcmp(word, name))
    IS("page tables") page_tables();
    IS("sockets") in_processes(6, fill_sockets);
    IS("tcp") tcp();
    IS("udp") udp();
    IS("pipes") in_processes(6, fill_pipes);
    IS("message queues") message_queues();
    IS("semaphores") semaphores();
    IS("watchers") in_processes(12, fill_watchers);
    IS("mappings") in_processes(12, mappings);
    IS("files") many_files();
    usleep(700000);
    report("lived", word);
    return 0;
}
