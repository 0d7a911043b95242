/* A thread that is not the main one calls exit(5) while the main thread and two more compute; handlers run once. */
#include "checked.h"

#include <pthread.h>

static long rounds;
static uint64_t found;

SEPARATE uint64_t compute(uint64_t sum)
{
    for (uint64_t n = 0; n < 4000; n++)
        sum = sum_of(sum, n);
    return sum;
}

static void at_exit(void) { checked_end(found, 1); }

static void *run(void *ends)
{
    volatile uint64_t sum = 1;
    for (long round = 0; !ends || round < rounds; round++)
        sum = compute(sum);
    found = sum;
    exit(5);
}

int main(int argc, char **argv)
{
    rounds = checked_rounds(argc, argv, 20000);
    atexit(at_exit);
    for (long n = 0; n < 3; n++) {
        pthread_t thread;
        if ((errno = pthread_create(&thread, NULL, run, n == 2 ? &rounds : NULL)))
            known_impossible("start a thread");
    }
    run(NULL);
}
