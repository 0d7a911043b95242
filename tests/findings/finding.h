/* What the programs of this folder share: a clock, memory, and a value that the compiler must keep.
   Each program has one cause of slowness, or looks as if it had one; table.txt says which. */
#pragma once
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* Seconds since the first call; the programs run until `limit` of them are over. */
static inline double seconds(void) {
    static double first;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    double at = (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
    if (first == 0.0) first = at;
    return at - first;
}

static inline double limit_of(int argc, char **argv) {
    seconds();
    return argc > 1 ? atof(argv[1]) : 3.0;
}

/* The compiler does not know what becomes of it. */
static inline void keep(double value) { __asm__ volatile("" : : "x"(value) : "memory"); }
static inline void keep_word(uint64_t value) { __asm__ volatile("" : : "r"(value) : "memory"); }

/* Zeroed memory in huge pages, so that neither faults nor page walks matter. */
static inline void *huge(size_t bytes) {
    size_t whole = (bytes + (2u << 20) - 1) & ~((size_t)(2u << 20) - 1);
    void *memory = aligned_alloc(2u << 20, whole);
    if (memory == NULL) exit(2);
    madvise(memory, whole, MADV_HUGEPAGE);
    memset(memory, 0, whole);
    return memory;
}

/* Computes for so many seconds of this thread's CPU time, however busy the machine is. */
static inline void compute_for(double time) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    double until = (double)now.tv_sec + (double)now.tv_nsec * 1e-9 + time, at = 0.0, x = 1.0;
    while (at < until) {
        for (int i = 0; i < 20000; i++) x = x * 1.0000001 + 1e-9;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
        at = (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
    }
    keep(x);
}

static inline uint64_t next_random(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}
