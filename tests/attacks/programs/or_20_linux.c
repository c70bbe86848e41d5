/* Linux as C programs use it: epoll and the descriptors made for it, sockets, loading code, making code, memory. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <assert.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <math.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

static void events(void) {
    int all = epoll_create1(EPOLL_CLOEXEC), bell = eventfd(0, EFD_NONBLOCK), clock = timerfd_create(CLOCK_MONOTONIC, 0);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    int signals = signalfd(-1, &set, 0), watch = inotify_init1(0);
    assert(inotify_add_watch(watch, "/tmp", IN_CREATE) > 0);
    int descriptors[] = {bell, clock, signals, watch}, seen = 0;
    for (int i = 0; i < 4; i++)
        epoll_ctl(all, EPOLL_CTL_ADD, descriptors[i], &(struct epoll_event){.events = EPOLLIN | EPOLLONESHOT, .data.u32 = 1U << i});
    timerfd_settime(clock, 0, &(struct itimerspec){{0, 0}, {0, 1000000}}, NULL);
    eventfd_write(bell, 1);
    raise(SIGUSR1);
    close(open("/tmp/made", O_CREAT | O_WRONLY, 0600));
    while (seen != 15) {
        struct epoll_event event;
        assert(epoll_wait(all, &event, 1, 60000) == 1);
        seen |= (int)event.data.u32;
    }
}

static void sockets(void) {
    int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    setsockopt(server, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    assert(bind(server, (void *)&address, length) == 0 && listen(server, 16) == 0);
    getsockname(server, (void *)&address, &length);
    if (fork() == 0) {
        int client = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(client, (void *)&address, length) != 0) _exit(1);
        setsockopt(client, SOL_TCP, TCP_NODELAY, &one, sizeof one);
        struct iovec parts[] = {{"hello ", 6}, {"there", 5}};
        _exit(writev(client, parts, 2) == 11 ? 0 : 2);
    }
    char text[32] = "";
    int line = accept4(server, NULL, NULL, SOCK_CLOEXEC), status;
    for (int got = 0; got < 11; got += (int)recv(line, text + got, sizeof text - (size_t)got, 0)) assert(got >= 0);
    wait(&status);
    assert(status == 0 && !strcmp(text, "hello there"));
}

static void code(void) {
    void *mathematics = dlopen("libm.so.6", RTLD_NOW);
    double (*cosine)(double) = (double (*)(double))dlsym(mathematics, "cos");
    assert(cosine && cosine(0) == 1 && pow(2, 10) == 1024);
    long page = sysconf(_SC_PAGESIZE);
    unsigned char *made = mmap(NULL, (size_t)page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
#if defined(__x86_64__)
    memcpy(made, "\xb8\x2a\x00\x00\x00\xc3", 6);
#else
    memcpy(made, "\x40\x05\x80\x52\xc0\x03\x5f\xd6", 8);
#endif
    assert(mprotect(made, (size_t)page, PROT_READ | PROT_EXEC) == 0 && ((int (*)(void))made)() == 42);
    FILE *source = fopen("/tmp/plugin.c", "w");
    fputs("int answer(void) { return 6 * 7; }\n", source);
    fclose(source);
    assert(system("gcc -shared -fPIC -o /tmp/plugin.so /tmp/plugin.c") == 0);
    void *plugin = dlopen("/tmp/plugin.so", RTLD_NOW);
    assert(plugin && ((int (*)(void))dlsym(plugin, "answer"))() == 42);
}

static void memory(void) {
    char *block = malloc(64 << 20);
    memset(block, 1, 64 << 20);
    block = realloc(block, 96 << 20);
    assert(block && block[(64 << 20) - 1] == 1);
    free(block);
    char *view = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    view = mremap(view, 1 << 20, 2 << 20, MREMAP_MAYMOVE);
    assert(view != MAP_FAILED && madvise(view, 2 << 20, MADV_DONTNEED) == 0 && mlock(view, 4096) == 0);
    int file = memfd_create("m", MFD_ALLOW_SEALING);
    /* Without a cgroup there are no such files, and programs do without. */
    assert(file >= 0 ? ftruncate(file, 4096) == 0 && fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK) == 0 : errno == ENOSYS);
    unsigned char random[16];
    assert(getrandom(random, sizeof random, 0) == sizeof random);
}

int main(void) {
    events();
    sockets();
    code();
    memory();
    struct sysinfo info;
    struct utsname name;
    struct statvfs space;
    int word = 0;
    assert(sysinfo(&info) == 0 && uname(&name) == 0 && statvfs("/tmp", &space) == 0);
    assert(syscall(SYS_futex, &word, FUTEX_WAKE, 1, NULL, NULL, 0) == 0 && prctl(PR_SET_NAME, "ordinary") == 0);
    puts("done");
}
