/*
 * `inlined_work`: arithmetic that a compiler cannot drop, always inlined, so that profilers must show it as an
 * inline frame of this file inside the function that calls it. No library, no headers beyond stdint.h: also for
 * programs without a C library.
 */
#ifndef INLINE_WORK_H
#define INLINE_WORK_H

#include <stdint.h>

/* About 30 to 100 microseconds: long against one reading of the CPU clock, short against a millisecond. */
enum { INLINED_WORK_STEPS = 20000 };

static inline __attribute__((always_inline)) uint32_t inlined_work(uint32_t value)
{
    /* A linear congruential generator: each step needs the last one, so the loop can't be shortened. */
    for (int step = 0; step < INLINED_WORK_STEPS; step++)
        value = value * 1664525u + 1013904223u;
    return value;
}

#endif
