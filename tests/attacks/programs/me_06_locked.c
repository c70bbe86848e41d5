/* Asks for memory that cannot be taken back: locked, huge, secret. */
#include "attack.h"
#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/shm.h>

#define SIZE (8 << 20)

static long map(int flags) {
    void *at = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    return at == MAP_FAILED ? -1 : munmap(at, SIZE);
}

static long lock(long (*how)(void *)) {
    void *at = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    long result = how(at);
    int error = errno;
    munmap(at, SIZE);
    errno = error;
    return result;
}

static long by_mlock(void *at) { return mlock(at, SIZE); }
static long by_mlock2(void *at) { return syscall(SYS_mlock2, at, SIZE, 1); }

static long piecemeal(void *at) {
    for (long i = 0; i < SIZE; i += 4096) {
        if (mlock((char *)at + i, 4096)) return i < 128 << 10 ? -1 : i;
    }
    return SIZE;
}

static long all(int flags) {
    long result = mlockall(flags);
    if (result == 0) {
        /* What comes later would be locked as well. */
        result = map(0);
        munlockall();
    }
    return result;
}

static long fd_of(long fd) {
    if (fd < 0) return -1;
    close((int)fd);
    return 0;
}

static long segment(int flags) {
    int id = shmget(IPC_PRIVATE, SIZE, IPC_CREAT | 0600 | flags);
    if (id == -1) return -1;
    shmctl(id, IPC_RMID, NULL);
    return 0;
}

static long lock_segment(void) {
    int id = shmget(IPC_PRIVATE, SIZE, IPC_CREAT | 0600);
    if (id == -1) return -1;
    long result = shmctl(id, SHM_LOCK, NULL);
    int error = errno;
    shmctl(id, IPC_RMID, NULL);
    errno = error;
    return result;
}

static long more(void) {
    struct rlimit most = {RLIM_INFINITY, RLIM_INFINITY};
    return setrlimit(RLIMIT_MEMLOCK, &most);
}

int main(void) {
    attempt("lock: mlock", lock(by_mlock));
    attempt("lock: mlock2", lock(by_mlock2));
    attempt("lock: page by page", lock(piecemeal));
    attempt("lock: all that is there", all(MCL_CURRENT));
    attempt("lock: all that will be", all(MCL_FUTURE));
    attempt("lock: all, on fault", all(MCL_CURRENT | MCL_FUTURE | 4));
    attempt("lock: mapping", map(MAP_LOCKED));
    attempt("lock: mapping, populated", map(MAP_LOCKED | MAP_POPULATE));
    attempt("lock: segment", lock_segment());
    attempt("lock: a higher limit", more());
    attempt("huge: mapping", map(MAP_HUGETLB));
    attempt("huge: mapping of 2 MB", map(MAP_HUGETLB | 21 << 26));
    attempt("huge: mapping of 1 GB", map(MAP_HUGETLB | 30 << 26));
    attempt("huge: segment", segment(SHM_HUGETLB));
    attempt("huge: memfd", fd_of(memfd_create("huge", MFD_HUGETLB)));
    attempt("secret: memfd_secret", fd_of(syscall(447, 0)));
    attempt("secret: memfd_secret, close on exec", fd_of(syscall(447, 02000000)));
    attempt("place: mbind", syscall(SYS_mbind, 0, 0, MPOL_BIND, 0, 0, 0));
    attempt("place: set_mempolicy", syscall(SYS_set_mempolicy, MPOL_BIND, 0, 0));
    attempt("place: move_pages", syscall(SYS_move_pages, 0, 0, 0, 0, 0, 0));
    attempt("place: migrate_pages", syscall(SYS_migrate_pages, 0, 0, 0, 0));
    return 0;
}
