/*
 * Measures from inside how long its one thread stood still: reads the time stamp counter without pause for --ms, or a
 * fixed number of times (--thousands), and keeps each gap of over 2 microseconds. A profiler's stops are among them, and so
 * are the kernel's and the hypervisor's; only the difference to a run alone is the profiler's. Needs an invariant counter;
 * x86-64 only.
 */
#include "known.h"

#include <x86intrin.h>

enum { MOST_GAPS = 1 << 20, LEAST_NS = 2000, STEPS = 12 };

static uint64_t gaps[MOST_GAPS];

static int by_size(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

/* Ticks per nanosecond, from the two clocks over 2 ms: what is watched begins soon behind the program's start. */
static double ticks_per_ns(void)
{
    int64_t began = known_clock(CLOCK_MONOTONIC), now = began;
    uint64_t first = __rdtsc();
    while (now - began < 2 * MEGA)
        now = known_clock(CLOCK_MONOTONIC);
    return (double)(__rdtsc() - first) / (double)(now - began);
}

/* Until either limit. */
SEPARATE long watch(uint64_t ticks, uint64_t readings, uint64_t least)
{
    long count = 0;
    uint64_t last = __rdtsc(), end = last + ticks;
    for (uint64_t reading = 0; last < end && reading < readings; reading++) {
        uint64_t now = __rdtsc();
        if (now - last > least && count < MOST_GAPS)
            gaps[count++] = now - last;
        last = now;
    }
    return count;
}

int main(int argc, char **argv)
{
    long ms = 5000, thousands = 0;
    known_options(argc, argv, (struct known_option[]){{"--ms", &ms, 0, 3600000}, {"--thousands", &thousands, 0, 1 << 30}}, 2);
    memset(gaps, 0xff, sizeof gaps); /* no page faults while it watches */
    double per_ns = ticks_per_ns();
    uint64_t ticks = thousands ? UINT64_MAX / 2 : (uint64_t)((double)ms * MEGA * per_ns);
    uint64_t readings = thousands ? (uint64_t)thousands * 1000 : UINT64_MAX;
    long count = watch(ticks, readings, (uint64_t)(LEAST_NS * per_ns));
    uint64_t total = 0;
    qsort(gaps, (size_t)count, sizeof *gaps, by_size);
    for (long n = 0; n < count; n++)
        total += gaps[n];
    printf("gaps=%ld\nstood_still_us=%.1f\n", count, (double)total / per_ns / 1000);
    if (count > 0)
        printf("median_us=%.1f\np99_us=%.1f\nmax_us=%.1f\n", (double)gaps[count / 2] / per_ns / 1000,
               (double)gaps[count - 1 - count / 100] / per_ns / 1000, (double)gaps[count - 1] / per_ns / 1000);
    /* from_2_us: gaps of 2 to 4 microseconds, and so on by powers of 2; the last also holds all longer ones. */
    long at = 0;
    for (int step = 0; step < STEPS; step++) {
        double end = step == STEPS - 1 ? 1e300 : (double)LEAST_NS * (double)(2l << step);
        long first = at;
        while (at < count && (double)gaps[at] / per_ns < end)
            at++;
        printf("from_%ld_us=%ld\n", LEAST_NS / 1000 * (1l << step), at - first);
    }
    known_end();
    return 0;
}
