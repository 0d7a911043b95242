/*
 * Sets a filter (seccomp(2)) that ends the process at gettid, then allocates: from `after_filter` --blocks (1000) blocks of
 * 300000 bytes, from `in_thread` as many of 400000 bytes in a thread that is started behind the filter; each is freed at
 * once. A profiler that asks the kernel for the thread's number at every block ends the program.
 */
#include "known.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static long blocks = 1000;

static void forbid_gettid(void)
{
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_gettid, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        known_impossible("set a seccomp filter");
}

static void ask(size_t bytes)
{
    char *volatile block = malloc(bytes);
    if (!block)
        known_impossible("allocate");
    block[0] = 1;
    free(block);
}

SEPARATE void after_filter(void)
{
    for (long n = 0; n < blocks; n++)
        ask(300000);
}

SEPARATE void *in_thread(void *unused)
{
    for (long n = 0; n < blocks; n++)
        ask(400000);
    return unused;
}

int main(int argc, char **argv)
{
    known_options(argc, argv, &(struct known_option){"--blocks", &blocks, 1, 1000000}, 1);
    forbid_gettid();
    after_filter();
    pthread_t thread;
    if (pthread_create(&thread, NULL, in_thread, NULL) != 0)
        known_impossible("start a thread");
    pthread_join(thread, NULL);
    printf("blocks=%ld\nEXIT-SUCCESS\n", blocks);
    return 0;
}
