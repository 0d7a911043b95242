/*
 * A launcher: refuses perf_event_open (with --errno N, EPERM by default) and, with --ptrace, ptrace and
 * process_vm_readv/writev, or with --bpf only bpf, to itself and all that it starts; then runs its other arguments:
 * what a container's seccomp profile does. Prints nothing itself.
 *   no_perf [--errno N] [--ptrace | --bpf] PROGRAM ARGS...
 */
#include "known.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

/* The filter compares the number only: system calls of another width (32-bit programs) have other numbers. */
static void refuse(const int *calls, int count, int error)
{
    struct sock_filter filter[16];
    int length = 0;
    filter[length++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (int n = 0; n < count; n++) {
        filter[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[n], 0, 1);
        filter[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error);
    }
    filter[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {(unsigned short)length, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        known_impossible("install the filter");
}

int main(int argc, char **argv)
{
    int error = EPERM, count = 1, index = 1, first = 0;
    for (; index < argc && strncmp(argv[index], "--", 2) == 0; index++) {
        if (strcmp(argv[index], "--ptrace") == 0)
            count = 4;
        else if (strcmp(argv[index], "--bpf") == 0)
            first = 4;
        else if (strcmp(argv[index], "--errno") == 0 && index + 1 < argc && (error = atoi(argv[index + 1])) > 0 &&
                 error < 4096)
            index++;
        else
            break;
    }
    if (index >= argc || strncmp(argv[index], "--", 2) == 0) {
        fprintf(stderr, "usage: %s [--errno N] [--ptrace | --bpf] PROGRAM ARGS...\n", argv[0]);
        return 2;
    }
    const int calls[] = {SYS_perf_event_open, SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev,
                         SYS_bpf};
    refuse(calls + first, first ? 1 : count, error);
    execvp(argv[index], argv + index);
    known_impossible("start the program");
}
