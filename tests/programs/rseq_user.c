/*
 * Counts per CPU in restartable sequences (rseq(2), the area that the C library registered; sys/rseq.h): two threads
 * add without atomics, and nothing may be lost. The kernel knows the sequence by its native addresses only.
 */
#include "checked.h"

#include <pthread.h>
#include <sys/rseq.h>

enum { CPUS = 1024, LINE = 8 };

static long rounds;
static uint64_t counts[CPUS * LINE];

/* Adds 1 to the count of the CPU it runs on; begins anew when it was moved or interrupted in between. */
SEPARATE void add_here(struct rseq *area)
{
    __asm__ volatile goto(
        ".pushsection __rseq_cs, \"aw\"\n.balign 32\n"
        "3: .long 0, 0\n.quad 1f, 2f - 1f, 4f\n.popsection\n"
        ".pushsection .text.rseq_abort, \"ax\"\n"
        ".byte 0x0f, 0xb9, 0x3d\n.long 0x53053053\n" /* RSEQ_SIG before the abort address */
        "4: jmp %l[again]\n.popsection\n"
        "leaq 3b(%%rip), %%rax\n\tmovq %%rax, %c[cs](%[area])\n"
        "1: movl %c[cpu](%[area]), %%ecx\n\tshlq $6, %%rcx\n"
        "addq $1, (%[counts], %%rcx)\n"
        "2:\n"
        :
        : [area] "r"(area), [counts] "r"(counts), [cs] "i"(__builtin_offsetof(struct rseq, rseq_cs)),
          [cpu] "i"(__builtin_offsetof(struct rseq, cpu_id))
        : "rax", "rcx", "memory", "cc"
        : again);
    return;
again:
    add_here(area);
}

static void *run(void *unused)
{
    struct rseq *area = (struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset);
    for (long round = 0; round < rounds; round++)
        add_here(area);
    return unused;
}

int main(int argc, char **argv)
{
    rounds = checked_rounds(argc, argv, 100000000);
    if (__rseq_size == 0) {
        errno = ENOSYS;
        known_impossible("use restartable sequences: the C library registered none");
    }
    pthread_t thread;
    if ((errno = pthread_create(&thread, NULL, run, NULL)))
        known_impossible("start a thread");
    run(NULL);
    pthread_join(thread, NULL);
    uint64_t total = 0;
    for (int cpu = 0; cpu < CPUS; cpu++)
        total += counts[cpu * LINE];
    printf("counted=%llu\n", (unsigned long long)total);
    return checked_end(total, total == 2 * (uint64_t)rounds);
}
