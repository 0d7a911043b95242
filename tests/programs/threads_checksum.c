/*
 * --threads threads, at most --alive at a time, each computes --rounds rounds over memory of its own; the sum is that
 * of all results in order. 200 short ones with 4 alive: born and dying all the time. 32 of 32: all at once.
 */
#include "checked.h"

#include <pthread.h>

enum { MOST = 256, WORDS = 512 };

static long rounds = 2000;
static struct worker {
    pthread_t thread;
    uint64_t number, sum;
} workers[MOST];

SEPARATE uint64_t churned(uint64_t *words, uint64_t sum)
{
    for (int n = 0; n < WORDS; n++) {
        words[(sum >> 7) % WORDS] += sum;
        sum = sum_of(sum, words[n]);
    }
    return sum;
}

static void *run(void *argument)
{
    struct worker *worker = argument;
    uint64_t words[WORDS] = {0};
    worker->sum = worker->number + 1;
    for (long round = 0; round < rounds; round++)
        worker->sum = churned(words, worker->sum);
    return NULL;
}

int main(int argc, char **argv)
{
    long threads = 200, alive = 4;
    const struct known_option options[] = {
        {"--threads", &threads, 1, 100000}, {"--alive", &alive, 1, MOST}, {"--rounds", &rounds, 1, 1000000000}};
    known_options(argc, argv, options, 3);
    uint64_t sum = 1;
    for (long n = 0; n < threads + alive; n++) {
        struct worker *worker = &workers[n % alive];
        if (n >= alive && n - alive < threads) {
            pthread_join(worker->thread, NULL);
            sum = sum_of(sum, worker->sum);
        }
        if (n >= threads)
            continue;
        worker->number = (uint64_t)n;
        errno = pthread_create(&worker->thread, NULL, run, worker);
        if (errno)
            known_impossible("start a thread");
    }
    printf("threads=%ld\n", threads);
    return checked_end(sum, 1);
}
