/*
 * The runtime of drawn programs: arrays and their first contents, repeats, threads, the line of JSON at the end.
 *
 * Usage of a program: PROGRAM REPEATS_OF_PHASE_0 REPEATS_OF_PHASE_1 ... It prints seconds per phase, the bytes that it
 * touched first (the kernel clears them in the cache), and a checksum. What not: patterns; see the drawn source.
 * `drawn_mark` is where the counting of accesses cuts: it must stay a function of its own.
 */
#define _GNU_SOURCE
#include "drawn.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

double drawn_sum[DRAWN_MOST_THREADS][16];
size_t drawn_repeats[DRAWN_MOST_PHASES];

static int phases_of_program;
static double phase_seconds[DRAWN_MOST_PHASES], phase_start, program_start;
static size_t touched_bytes;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void fail(const char *what)
{
    fprintf(stderr, "drawn program: %s: %s\n", what, strerror(errno));
    exit(1);
}

void *drawn_array(size_t bytes, int huge)
{
    const size_t page = (size_t)2 << 20, rounded = (bytes + page - 1) / page * page;
    void *memory = aligned_alloc(page, rounded);
    if (!memory)
        fail("cannot allocate an array");
    if (huge && madvise(memory, rounded, MADV_HUGEPAGE) != 0)
        fail("this kernel has no transparent huge pages");
    touched_bytes += (bytes + 63) / 64 * 64;
    return memory;
}

#define FILL(T)                                                                                                        \
    void drawn_fill_##T(T *array, size_t elements)                                                                     \
    {                                                                                                                  \
        for (size_t i = 0; i < elements; i++)                                                                          \
            array[i] = (T)(1 + (int32_t)((uint32_t)i * 2654435761u >> 29));                                            \
    }
FILL(float)
FILL(double)
FILL(int32_t)
FILL(int64_t)

void drawn_indices(uint32_t *array, size_t elements, uint32_t bound, uint64_t seed)
{
    for (size_t i = 0; i < elements; i++)
        array[i] = (uint32_t)((DRAWN_NEXT(seed) >> 32) * bound >> 32);
}

void drawn_cycle(uint32_t *array, size_t elements, uint64_t seed)
{
    for (size_t i = 0; i < elements; i++)
        array[i] = (uint32_t)i;
    for (size_t i = elements - 1; i > 0; i--) {
        size_t with = (size_t)((DRAWN_NEXT(seed) >> 32) * i >> 32);
        uint32_t kept = array[i];
        array[i] = array[with];
        array[with] = kept;
    }
}

void drawn_begin(int count, char **words, int phases)
{
    program_start = now();
    phases_of_program = phases;
    if (count != phases + 1) {
        fprintf(stderr, "usage: %s REPEATS... (one number for each of %d phases)\n", words[0], phases);
        exit(2);
    }
    for (int phase = 0; phase < phases; phase++)
        drawn_repeats[phase] = strtoul(words[phase + 1], NULL, 10);
}

NOINLINE void drawn_mark(void)
{
    __asm__ volatile("");
}

void drawn_phase_begins(int phase)
{
    (void)phase;
    phase_start = now();
}

void drawn_phase_ends(int phase)
{
    drawn_mark();
    phase_seconds[phase] = now() - phase_start;
}

struct part {
    void (*work)(int, int);
    int phase, thread, threads;
    pthread_barrier_t *barrier;
};

static void *other_thread(void *argument)
{
    struct part *part = argument;
    for (size_t repeat = 0; repeat < drawn_repeats[part->phase]; repeat++) {
        pthread_barrier_wait(part->barrier);
        part->work(part->thread, part->threads);
        pthread_barrier_wait(part->barrier);
    }
    return NULL;
}

/* The threads meet before and after each repeat. */
void drawn_parallel(int phase, int threads, void (*work)(int, int))
{
    pthread_barrier_t barrier;
    pthread_t handles[DRAWN_MOST_THREADS];
    struct part parts[DRAWN_MOST_THREADS];
    pthread_barrier_init(&barrier, NULL, (unsigned)threads);
    for (int thread = 1; thread < threads; thread++) {
        parts[thread] = (struct part){work, phase, thread, threads, &barrier};
        if (pthread_create(&handles[thread], NULL, other_thread, &parts[thread]) != 0)
            fail("cannot start a thread");
    }
    for (size_t repeat = 0; repeat < drawn_repeats[phase]; repeat++) {
        drawn_mark();
        pthread_barrier_wait(&barrier);
        work(0, threads);
        pthread_barrier_wait(&barrier);
    }
    for (int thread = 1; thread < threads; thread++)
        pthread_join(handles[thread], NULL);
    pthread_barrier_destroy(&barrier);
}

int drawn_end(void)
{
    double sum = 0;
    for (int thread = 0; thread < DRAWN_MOST_THREADS; thread++)
        sum += drawn_sum[thread][0];
    printf("{\"name\": \"drawn\", \"seconds\": [");
    for (int phase = 0; phase < phases_of_program; phase++)
        printf("%s%.6f", phase ? ", " : "", phase_seconds[phase]);
    printf("], \"total\": %.6f, \"touched_bytes\": %zu, \"checksum\": %.17g}\n", now() - program_start, touched_bytes, sum);
    return 0;
}
