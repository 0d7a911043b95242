/*
 * --threads threads work for a fraction of a millisecond and meet at a barrier, --rounds times; every fourth time they hand
 * on a baton, each waiting for the one in front (mutex and condition variable). They wait often, and only in futex: a tracer
 * that stops them while they wait must not change what they compute, nor leave one waiting for ever.
 */
#include "checked.h"

#include <pthread.h>

enum { MOST = 16, WORDS = 1 << 14 };

static long threads = 2, rounds = 2000;
static pthread_barrier_t barrier;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t handed_on = PTHREAD_COND_INITIALIZER;
static long turn;
static uint64_t baton = 1, words[MOST][WORDS];

SEPARATE uint64_t summed(uint64_t *own, uint64_t sum)
{
    for (int n = 0; n < WORDS; n++) {
        own[n] += sum;
        sum = sum_of(sum, own[(sum >> 7) % WORDS]);
    }
    return sum;
}

static void *run(void *argument)
{
    long number = (long)argument;
    uint64_t sum = (uint64_t)number + 1;
    for (long round = 0; round < rounds; round++) {
        sum = summed(words[number], sum);
        pthread_barrier_wait(&barrier);
        /* What the neighbour has at this moment, which does not change before all have read it. */
        sum = sum_of(sum, words[(number + 1) % threads][round % WORDS]);
        pthread_barrier_wait(&barrier);
        if (round % 4 != 3)
            continue;
        pthread_mutex_lock(&lock);
        while (turn % threads != number)
            pthread_cond_wait(&handed_on, &lock);
        baton = sum_of(baton, sum);
        turn++;
        pthread_cond_broadcast(&handed_on);
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    const struct known_option options[] = {{"--threads", &threads, 1, MOST}, {"--rounds", &rounds, 1, 1000000000}};
    known_options(argc, argv, options, 2);
    pthread_barrier_init(&barrier, NULL, (unsigned)threads);
    pthread_t running[MOST];
    for (long n = 0; n < threads; n++) {
        errno = pthread_create(&running[n], NULL, run, (void *)n);
        if (errno)
            known_impossible("start a thread");
    }
    for (long n = 0; n < threads; n++)
        pthread_join(running[n], NULL);
    printf("threads=%ld\n", threads);
    return checked_end(baton, 1);
}
