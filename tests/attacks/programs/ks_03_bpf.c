/* Asks for code and data in the kernel: every command of bpf, every kind of map and program, as valid as can be. */
#include "attack.h"

#include <linux/bpf.h>

#define COMMANDS 64
#define KINDS 40

static long bpf(int command, union bpf_attr *attr) {
    return syscall(SYS_bpf, command, attr, sizeof *attr);
}

static long make_map(unsigned kind) {
    union bpf_attr attr = {.map_type = kind, .key_size = 4, .value_size = 8, .max_entries = 1};
    return bpf(BPF_MAP_CREATE, &attr);
}

static long load_program(unsigned kind, const char *license) {
    struct bpf_insn code[] = {
        {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0, .imm = 0},
        {.code = BPF_JMP | BPF_EXIT},
    };
    union bpf_attr attr = {.prog_type = kind, .insn_cnt = 2, .insns = (__u64)code, .license = (__u64)license};
    return bpf(BPF_PROG_LOAD, &attr);
}

static long load_types(void) {
    struct {
        __u16 magic;
        __u8 version, flags;
        __u32 header, type_offset, type_length, string_offset, string_length;
        __u32 type[4];
        char strings[8];
    } types = {0xeb9f, 1, 0, 24, 0, 16, 16, 5, {1, 0x01000000, 4, 0x01000020}, "\0int"};
    union bpf_attr attr = {.btf = (__u64)&types, .btf_size = sizeof types};
    return bpf(BPF_BTF_LOAD, &attr);
}

int main(void) {
    for (int command = 0; command < COMMANDS; command++) {
        union bpf_attr attr = {0};
        in_child(named("command %d", command), bpf(command, &attr));
        in_child(named("command %d, no argument", command), syscall(SYS_bpf, command, NULL, 0));
    }
    for (unsigned kind = 0; kind < KINDS; kind++) {
        in_child(named("map of kind %u", kind), make_map(kind));
        in_child(named("program of kind %u", kind), load_program(kind, "GPL"));
    }
    in_child("type information", load_types());
    union bpf_attr pinned = {.pathname = (__u64) "/sys/fs/bpf/x"};
    in_child("pinned object", bpf(BPF_OBJ_GET, &pinned));
    in_child("command with garbage above", syscall(SYS_bpf, 0x7fff00000000, &pinned, sizeof pinned));
    in_child("no command", syscall(SYS_bpf, -1, NULL, 0));
    return 0;
}
