/*
 * Two threads, each through phases that use memory differently (stream, strides, pointer chase, hash table, copy), and
 * a checksum over all they read. Prints ready=1 when both run, so that it can be attached to; --rounds sets how long.
 */
#include "checked.h"

#include <pthread.h>

enum { WORDS = 1 << 20 };

static long rounds;
static struct worker {
    uint64_t words[WORDS], sum;
} workers[2];
static pthread_barrier_t both;

SEPARATE static uint64_t stream(uint64_t *words, uint64_t sum)
{
    for (int n = 0; n < WORDS / 2; n++)
        words[n] = words[n + WORDS / 2] * 3 + (uint64_t)n;
    return sum_of(sum, words[WORDS / 3]);
}

SEPARATE static uint64_t strides(uint64_t *words, uint64_t sum)
{
    for (int first = 0; first < 64; first++)
        for (int n = first; n < WORDS; n += 64)
            sum += words[n]++;
    return sum;
}

SEPARATE static uint64_t chase(uint64_t *words, uint64_t sum)
{
    for (int n = 0; n < WORDS / 8; n++)
        sum = sum_of(sum, words[sum % WORDS]);
    return sum;
}

SEPARATE static uint64_t hashed(uint64_t *words, uint64_t sum)
{
    for (uint64_t n = 0; n < WORDS / 8; n++) {
        uint64_t at = sum_of(n, sum) % WORDS;
        while (words[at] % 4 == 1)
            at = (at + 1) % WORDS;
        words[at] += n;
    }
    return sum_of(sum, words[sum % WORDS]);
}

static void *run(void *argument)
{
    struct worker *worker = argument;
    pthread_barrier_wait(&both);
    for (long round = 0; round < rounds; round++) {
        worker->sum = stream(worker->words, worker->sum);
        worker->sum = strides(worker->words, worker->sum);
        worker->sum = chase(worker->words, worker->sum);
        worker->sum = hashed(worker->words, worker->sum);
        memmove(worker->words, worker->words + 1, (WORDS - 1) * sizeof *worker->words);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    rounds = checked_rounds(argc, argv, 60);
    pthread_barrier_init(&both, NULL, 3);
    pthread_t threads[2];
    for (int n = 0; n < 2; n++) {
        uint64_t state = 88172645463325252u + (uint64_t)n;
        for (int word = 0; word < WORDS; word++)
            workers[n].words[word] = next_random(&state);
        workers[n].sum = (uint64_t)n + 1;
        if ((errno = pthread_create(&threads[n], NULL, run, &workers[n])))
            known_impossible("start a thread");
    }
    pthread_barrier_wait(&both);
    printf("ready=1\n");
    for (int n = 0; n < 2; n++)
        pthread_join(threads[n], NULL);
    return checked_end(sum_of(workers[0].sum, workers[1].sum), 1);
}
