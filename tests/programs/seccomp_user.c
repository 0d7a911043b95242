/*
 * Confines itself by a seccomp filter (seccomp(2)) to what it needs: write, exit, the return from signals. Any other
 * system call fails with EPERM, or with --kill ends the process. A profiler may inject none then, nor take back what it
 * injected in the --before rounds.
 */
#include "checked.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static void confine(int kill)
{
#define ALLOW(name) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(write), ALLOW(exit_group), ALLOW(rt_sigreturn), ALLOW(restart_syscall),
        BPF_STMT(BPF_RET | BPF_K, kill ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_ERRNO | EPERM),
    };
    struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        known_impossible("set a seccomp filter");
}

SEPARATE uint64_t compute(uint64_t sum)
{
    static uint64_t memory[8192];
    for (uint64_t n = 0; n < 8192; n++) {
        memory[n] += sum;
        sum = sum_of(sum, memory[sum % 8192]);
    }
    return sum;
}

int main(int argc, char **argv)
{
    long rounds = 15000, before = 0, kill = 0;
    const struct known_option options[] = {
        {"--rounds", &rounds, 1, 1000000000}, {"--before", &before, 0, 1000000000}, {"--kill", &kill, 1, 1}};
    known_options(argc, argv, options, 3);
    printf("rounds=%ld\n", rounds);
    uint64_t sum = 1;
    for (long round = 0; round < before; round++)
        sum = compute(sum);
    confine((int)kill);
    printf("confined=1\n");
    for (long round = 0; round < rounds; round++)
        sum = compute(sum);
    int refused = kill || (syscall(SYS_getppid) < 0 && errno == EPERM);
    printf("refused=%s\n", refused ? "yes" : "no");
    return checked_end(sum, refused);
}
