/*
 * --threads threads each count up --ms milliseconds of their own CPU time in count_up, in counters that lie --apart bytes
 * apart: 8 puts up to 8 of them on one cache line (false sharing), 0 gives all the same one (true sharing), 64 and more
 * leaves each its own. `line` is the address of the first counter's cache line.
 */
#include "known.h"

#include <pthread.h>

enum { MOST = 8, FARTHEST = 4096, PIECE = 10000 };

static long threads = 2, ms = 200, apart = 8;
static _Alignas(64) unsigned char memory[MOST * FARTHEST];

SEPARATE void count_up(volatile uint64_t *counter)
{
    for (int n = 0; n < PIECE; n++)
        (*counter)++;
}

static uint64_t cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000 * MEGA + (uint64_t)now.tv_nsec;
}

static void *run(void *argument)
{
    volatile uint64_t *counter = argument;
    uint64_t end = cpu_ns() + (uint64_t)ms * MEGA;
    while (cpu_ns() < end)
        count_up(counter);
    return NULL;
}

int main(int argc, char **argv)
{
    const struct known_option options[] = {
        {"--threads", &threads, 1, MOST}, {"--ms", &ms, 1, 100000}, {"--apart", &apart, 0, FARTHEST}};
    known_options(argc, argv, options, 3);
    if (apart % 8)
        known_impossible("counters of 8 bytes want multiples of 8");
    pthread_t started[MOST];
    for (long n = 0; n < threads; n++) {
        errno = pthread_create(&started[n], NULL, run, memory + n * apart);
        if (errno)
            known_impossible("start a thread");
    }
    for (long n = 0; n < threads; n++)
        pthread_join(started[n], NULL);
    printf("line=%p\n", (void *)memory);
    known_end();
    return 0;
}
