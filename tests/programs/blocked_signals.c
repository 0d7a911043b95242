/*
 * Computes in two threads with every signal blocked, SIGTRAP and SIGSEGV included, one real-time signal pending all
 * the time. The masks at the end are those of the start, and the pending signal is still pending, once.
 */
#include "checked.h"

#include <pthread.h>
#include <signal.h>

static long rounds;

SEPARATE uint64_t compute(uint64_t sum)
{
    static const uint32_t table[256] = {1, 2, 3, 5, 8, 13, 21, 34};
    for (uint64_t n = 0; n < 4000; n++)
        sum = sum_of(sum, table[sum & 255] + n);
    return sum;
}

static uint64_t mask_bits(void)
{
    sigset_t mask;
    uint64_t bits = 0;
    pthread_sigmask(SIG_BLOCK, NULL, &mask);
    for (int number = 1; number < 65; number++)
        bits |= (uint64_t)(sigismember(&mask, number) == 1) << (number - 1);
    return bits;
}

static void *run(void *argument)
{
    uint64_t *sum = argument, before = mask_bits();
    for (long round = 0; round < rounds; round++)
        *sum = compute(*sum);
    *sum = sum_of(*sum, before ^ mask_bits());
    return NULL;
}

int main(int argc, char **argv)
{
    rounds = checked_rounds(argc, argv, 20000);
    sigset_t all, pending;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    raise(SIGRTMIN);
    uint64_t before = mask_bits(), sums[2] = {1, 2};
    pthread_t thread;
    errno = pthread_create(&thread, NULL, run, &sums[1]);
    if (errno)
        known_impossible("start a thread");
    run(&sums[0]);
    pthread_join(thread, NULL);
    sigpending(&pending);
    int waits = sigismember(&pending, SIGRTMIN);
    printf("mask_before=%016llx\nmask_after=%016llx\npending=%d\n", (unsigned long long)before,
           (unsigned long long)mask_bits(), waits);
    return checked_end(sum_of(sums[0], sums[1]), before == mask_bits() && waits == 1);
}
