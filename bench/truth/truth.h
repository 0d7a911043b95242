/*
 * What the programs of the truth bench share: memory, threads, and the one line of JSON at the end.
 *
 * What a program states holds for its whole run: the main phase by arithmetic, and the writing of its arrays before it.
 * Traffic is counted in whole 64-byte lines that cross between the last-level cache and DRAM:
 * a load or a store that misses reads a line, a line that was written is written back once it is evicted, a
 * non-temporal store only writes. The kernel zeroes a page right before the program first writes it, so that
 * first write hits a line in the cache: writing an array once costs its bytes written, and nothing read.
 * Left out: hardware prefetches that nobody uses, page-table walks, and the rest of the machine.
 *
 * Hazard: Intel processors from Ice Lake SP on may turn a write-allocate read into an ownership request without data when
 * memory is saturated ("SpecI2M"); the read bytes of ordinary stores are then too high here.
 */
#ifndef TRUTH_H
#define TRUTH_H

#include "../../recipes/common.h"

#include <immintrin.h>
#include <math.h>
#include <pthread.h>
#include <sys/mman.h>

enum { LINE = 64, VECTOR = 4 /* doubles in an AVX2 register */, MAX_THREADS = 256 };
enum level { L1, L2, L3, DRAM, LEVELS };

/* NAN: not known by arithmetic; `make truth` then takes it from simulated.json. */
struct truth {
    const char *name;
    double seconds; /* main phase */
    size_t threads, repeat;
    double read_bytes, written_bytes; /* DRAM, whole run */
    double setup_written_bytes;       /* of written_bytes, what was written before the main phase */
    double loads, stores;             /* instructions that do so, whole run */
    double flops;                     /* an FMA is two per lane */
    double levels[LEVELS];            /* share of loads, by the level that holds the line when it is asked for */
};

static inline struct truth unknown_truth(const char *name, size_t threads, size_t repeat)
{
    return (struct truth){.name = name, .threads = threads, .repeat = repeat, .read_bytes = NAN, .written_bytes = NAN,
                          .loads = NAN, .stores = NAN, .flops = NAN, .levels = {NAN, NAN, NAN, NAN}};
}

static inline void print_member(const char *key, double value)
{
    if (isnan(value))
        printf(", \"%s\": null", key);
    else
        printf(", \"%s\": %.17g", key, value);
}

static inline void print_truth(const struct truth *truth)
{
    static const char *const names[LEVELS] = {"l1", "l2", "l3", "dram"};
    printf("{\"name\": \"%s\", \"threads\": %zu, \"repeat\": %zu", truth->name, truth->threads, truth->repeat);
    print_member("seconds", truth->seconds);
    print_member("read_bytes", truth->read_bytes);
    print_member("written_bytes", truth->written_bytes);
    print_member("setup_written_bytes", truth->setup_written_bytes);
    print_member("loads", truth->loads);
    print_member("stores", truth->stores);
    print_member("flops", truth->flops);
    for (int level = 0; level < LEVELS; level++)
        print_member(names[level], truth->levels[level]);
    double moved = truth->read_bytes + truth->written_bytes - truth->setup_written_bytes;
    print_member("gb_per_s", 1e-9 * moved / truth->seconds);
    printf("}\n");
}

/* Memory aligned to 2 MB pages. `huge`: asks for such pages, which shows what address translation costs. */
static inline void *array_of(size_t bytes, size_t huge)
{
    const size_t page = (size_t)2 << 20, rounded = (bytes + page - 1) / page * page;
    void *memory = aligned_alloc(page, rounded);
    if (!memory)
        fail("cannot allocate %zu bytes", bytes);
    if (huge && madvise(memory, rounded, MADV_HUGEPAGE) != 0)
        fail("this kernel has no transparent huge pages: %s", strerror(errno));
    return memory;
}

/* One store per 4 elements; `elements` is a multiple of 4. */
static inline void fill(double *array, size_t elements, double value)
{
    const __m256d four = _mm256_set1_pd(value);
    for (size_t i = 0; i < elements; i += VECTOR)
        _mm256_store_pd(array + i, four);
}

/* A permutation of the numbers of `bits` bits without visible order, and its inverse: multiplications by odd numbers
 * and xor of the upper half into the lower can both be undone. 16 <= bits <= 32. */
static inline uint64_t mixed(uint64_t x, unsigned bits)
{
    const uint64_t mask = ((uint64_t)1 << bits) - 1;
    x ^= x >> (bits + 1) / 2;
    x = x * 0x9E3779B1u & mask;
    x ^= x >> (bits + 1) / 2;
    x = x * 0x85EBCA6Bu & mask;
    return x ^ x >> (bits + 1) / 2;
}

static inline uint64_t unmixed(uint64_t x, unsigned bits)
{
    const uint64_t mask = ((uint64_t)1 << bits) - 1;
    /* 0x0E8E0951 * 0x9E3779B1 and so on would be opaque: Newton's step doubles the right bits of an inverse. */
    uint64_t first = 0x9E3779B1u, second = 0x85EBCA6Bu;
    for (int step = 0; step < 5; step++) {
        first *= 2 - 0x9E3779B1u * first;
        second *= 2 - 0x85EBCA6Bu * second;
    }
    x ^= x >> (bits + 1) / 2;
    x = x * second & mask;
    x ^= x >> (bits + 1) / 2;
    x = x * first & mask;
    return x ^ x >> (bits + 1) / 2;
}

/* The main phase: what each thread does, and its context. No barrier inside: waiting threads would load. */
struct phase {
    void (*work)(size_t thread, size_t threads, void *context);
    void *context;
    size_t threads, thread;
    pthread_barrier_t *start;
};

static inline void *phase_thread(void *argument)
{
    const struct phase *phase = argument;
    pthread_barrier_wait(phase->start);
    phase->work(phase->thread, phase->threads, phase->context);
    return NULL;
}

/* Runs the main phase and returns its seconds. One thread: in the main thread. */
static inline double run_phase(size_t threads, void (*work)(size_t, size_t, void *), void *context)
{
    if (threads == 1) {
        double start = seconds_now();
        work(0, 1, context);
        return seconds_now() - start;
    }
    static struct phase phases[MAX_THREADS];
    static pthread_t handles[MAX_THREADS];
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, NULL, (unsigned)threads + 1);
    for (size_t n = 0; n < threads; n++) {
        phases[n] = (struct phase){work, context, threads, n, &barrier};
        if (pthread_create(&handles[n], NULL, phase_thread, &phases[n]) != 0)
            fail("cannot start thread %zu of %zu", n + 1, threads);
    }
    pthread_barrier_wait(&barrier);
    double start = seconds_now();
    for (size_t n = 0; n < threads; n++)
        pthread_join(handles[n], NULL);
    return seconds_now() - start;
}

/* A result that the compiler must compute. */
static inline void keep(double value)
{
    __asm__ volatile("" : : "x"(value));
}

#endif
