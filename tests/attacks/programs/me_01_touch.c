/* Uses four times the memory it may have, in one process, in the way its word says. Prints `lived` if nobody
 * minds. */
#include "attack.h"
#include <sys/mman.h>
#include <sys/resource.h>

#define MEGABYTE (1L << 20)
#define MUCH (256 * MEGABYTE)
#define PAGE 4096

static char *map(long size, int protection, int flags) {
    char *at = mmap(NULL, (size_t)size, protection, flags | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

static long touch(char *at, long size) {
    if (at == NULL) return -1;
    for (long i = 0; i < size; i += PAGE) at[i] = 1;
    return 0;
}

/* Small pieces, as a program that leaks. */
static long heap(void) {
    for (long done = 0; done < MUCH; done += 64 << 10) {
        char *at = malloc(64 << 10);
        if (at == NULL) return -1;
        memset(at, 1, 64 << 10);
    }
    return 0;
}

static long grow_break(void) {
    for (long done = 0; done < MUCH; done += MEGABYTE) {
        char *at = sbrk(MEGABYTE);
        if (at == (char *)-1) return -1;
        touch(at, MEGABYTE);
    }
    return 0;
}

static long populated(void) {
    return map(MUCH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_POPULATE) == NULL ? -1 : 0;
}

/* Private pages of a file of the system, none of which is a data segment at first. */
static long copied_file(void) {
    int file = open("/usr/bin/python3", O_RDONLY);
    for (long done = 0; done < MUCH; done += MEGABYTE) {
        char *at = mmap(NULL, MEGABYTE, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
        if (at == MAP_FAILED) return -1;
        touch(at, MEGABYTE);
    }
    return 0;
}

/* Mapped unwritable, and made writable later in small steps. */
static long protected_first(void) {
    char *at = map(MUCH, PROT_NONE, MAP_PRIVATE);
    if (at == NULL) return -1;
    for (long done = 0; done < MUCH; done += MEGABYTE) {
        if (mprotect(at + done, MEGABYTE, PROT_READ | PROT_WRITE) == -1) return -1;
        touch(at + done, MEGABYTE);
    }
    return 0;
}

/* Stacks of many threads would be mappings; this is the one that grows by itself. */
static long deep_stack(int depth) {
    volatile char frame[PAGE * 16];
    for (unsigned i = 0; i < sizeof frame; i += PAGE) frame[i] = 1;
    return depth == 0 ? frame[0] - 1 : deep_stack(depth - 1) + frame[0] - 1;
}

static long stack(void) {
    struct rlimit most = {RLIM_INFINITY, RLIM_INFINITY};
    setrlimit(RLIMIT_STACK, &most);
    return deep_stack(MUCH / (PAGE * 16));
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        int flags;
    } MAPS[] = {{"private", MAP_PRIVATE}, {"shared", MAP_SHARED}};
    const char *word = argc > 1 ? argv[1] : "";
    report("begin", word);
    long result = -1;
    for (unsigned i = 0; i < 2; i++) {
        if (!strcmp(word, MAPS[i].name)) result = touch(map(MUCH, PROT_READ | PROT_WRITE, MAPS[i].flags), MUCH);
    }
    if (!strcmp(word, "heap")) result = heap();
    if (!strcmp(word, "break")) result = grow_break();
    if (!strcmp(word, "populated")) result = populated();
    if (!strcmp(word, "file")) result = copied_file();
    if (!strcmp(word, "protected")) result = protected_first();
    if (!strcmp(word, "stack")) result = stack();
    /* Whoever only looks from time to time needs a moment. */
    usleep(300000);
    report("lived", result == 0 ? "with all of it" : "refused");
    return result == 0 ? 0 : 1;
}
