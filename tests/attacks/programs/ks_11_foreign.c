/* Makes system calls of other architectures: of ia32 by interrupt, by a 32-bit program and out of a 32-bit segment; of
 * x32 by a bit in the number.
 *
 * The word it is started with says how, and it is the program itself that does it. With the word `children` it does all
 * of it in children, and lives. Wherever it can the call is ia32's exit with 42, which no refusal looks like. */
#include "attack.h"

#include <elf.h>
#include <stddef.h>
#include <sys/mman.h>

#define IA32_EXIT 1
#define IA32_CALLS 460
#define X32 0x40000000L
#define X32_CALLS 548
#define CODE_AT 0x20000000UL

static long interrupt(long number) {
    long result;
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(number), "b"(42L), "c"(0L), "d"(0L), "S"(0L), "D"(0L) : "memory");
    return result;
}

static long x32(long number) {
    return syscall(X32 | number, 0, 0, 0, 0, 0, 0);
}

/* mov $1, %eax; mov $42, %ebx; mov %esp, %ebp, for sysenter; then the instruction by which to enter the kernel. */
static void exit_42(unsigned char *code, const unsigned char *enter) {
    static const unsigned char head[] = {0xb8, IA32_EXIT, 0, 0, 0, 0xbb, 42, 0, 0, 0, 0x89, 0xe5};
    memcpy(code, head, sizeof head);
    memcpy(code + sizeof head, enter, 2);
}

static const unsigned char INT80[2] = {0xcd, 0x80}, SYSENTER[2] = {0x0f, 0x34}, SYSCALL[2] = {0x0f, 0x05};

/* Code and stack below 4 GiB, entered by a far return into the 32-bit segment that every process has. */
static long from_32_bit_segment(const unsigned char *enter) {
    unsigned char *code = mmap((void *)CODE_AT, 65536, PROT_READ | PROT_WRITE | PROT_EXEC,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (code == MAP_FAILED) return -1;
    exit_42(code, enter);
    unsigned char *stack = code + 32768;
    __asm__ volatile("mov %0, %%rsp\n pushq $0x23\n pushq %1\n lretq" : : "r"(stack), "r"(code) : "memory");
    return 0;
}

static long exec_32_bit(void) {
    struct {
        Elf32_Ehdr head;
        Elf32_Phdr part;
        unsigned char code[16];
    } file = {
        .head = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS32, ELFDATA2LSB, EV_CURRENT},
                 .e_type = ET_EXEC,
                 .e_machine = EM_386,
                 .e_version = EV_CURRENT,
                 .e_entry = CODE_AT + offsetof(__typeof__(file), code),
                 .e_phoff = sizeof file.head,
                 .e_ehsize = sizeof file.head,
                 .e_phentsize = sizeof file.part,
                 .e_phnum = 1},
        .part = {.p_type = PT_LOAD,
                 .p_vaddr = CODE_AT,
                 .p_paddr = CODE_AT,
                 .p_filesz = sizeof file,
                 .p_memsz = sizeof file,
                 .p_flags = PF_R | PF_X,
                 .p_align = 4096},
    };
    exit_42(file.code, INT80);
    int out = open("/tmp/old", O_WRONLY | O_CREAT | O_TRUNC, 0755);
    if (out == -1 || write(out, &file, sizeof file) != sizeof file || close(out) == -1) return -2;
    return execl("/tmp/old", "old", NULL);
}

/* How many numbers of a table get past: those after which the child still lives, or died of anything else. */
static int passing(long (*make)(long), int numbers) {
    int count = 0;
    for (int number = 0; number < numbers; number++) {
        int status = 0;
        pid_t pid = fork();
        if (pid == 0) {
            alarm(2);
            make(number);
            _exit(0);
        }
        if (waitpid(pid, &status, 0) != pid || !WIFSIGNALED(status)) count++;
        else if (WTERMSIG(status) != SIGSYS && WTERMSIG(status) != SIGSEGV) count++;
    }
    return count;
}

static void children(void) {
    in_child("ia32 interrupt", interrupt(IA32_EXIT));
    in_child("ia32 program", exec_32_bit());
    in_child("ia32 segment, int 0x80", from_32_bit_segment(INT80));
    in_child("ia32 segment, sysenter", from_32_bit_segment(SYSENTER));
    in_child("ia32 segment, syscall", from_32_bit_segment(SYSCALL));
    in_child("x32 getpid", x32(SYS_getpid));
    in_child("x32 of unshare", x32(SYS_unshare));
    in_child("x32 execve", x32(520));
    in_child("x32 of no number", x32(0x3fffffff));
    in_child("garbage above x32", syscall(1L << 32 | X32 | SYS_getpid));
    attempt("all of ia32", passing(interrupt, IA32_CALLS));
    attempt("all of x32", passing(x32, X32_CALLS));
    /* Not of another architecture: the kernel takes the lower half for the number, and so must the filter. */
    in_child("garbage above unshare", syscall(1L << 32 | SYS_unshare, 0x10000000));
    in_child("sign above unshare", syscall(0x80000000L | SYS_unshare, 0x10000000));
    in_child("negative number", syscall(-1));
    in_child("x32's own numbers without its bit", syscall(520, "/usr/bin/true", NULL, NULL));
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "children";
    if (!strcmp(how, "interrupt")) return (int)interrupt(IA32_EXIT);
    if (!strcmp(how, "program")) return (int)exec_32_bit();
    if (!strcmp(how, "segment")) return (int)from_32_bit_segment(INT80);
    if (!strcmp(how, "x32")) return (int)x32(SYS_getpid);
    children();
    return 0;
}
