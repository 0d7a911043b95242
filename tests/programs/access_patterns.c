/*
 * Loops whose number of memory accesses is known by construction: a pointer chase in random order over --megabytes
 * (dependent loads, one per line; --chase rounds) and a sum over 16 KB (--hits rounds). Each access is one load
 * instruction.
 */
#include "checked.h"

enum { LINE_WORDS = 8, SMALL_WORDS = 2048 };

static uint64_t small[SMALL_WORDS];

/* One cycle through all lines (Sattolo 1986); the first word of a line is the index of the next one. */
static void link_lines(uint64_t *words, uint64_t lines)
{
    uint64_t state = 88172645463325252u;
    for (uint64_t n = 0; n < lines; n++)
        words[n * LINE_WORDS] = n * LINE_WORDS;
    for (uint64_t n = lines - 1; n > 0; n--) {
        uint64_t other = next_random(&state) % n, kept = words[n * LINE_WORDS];
        words[n * LINE_WORDS] = words[other * LINE_WORDS];
        words[other * LINE_WORDS] = kept;
    }
}

SEPARATE uint64_t chase(const uint64_t *words, uint64_t count)
{
    uint64_t at = 0;
    for (uint64_t n = 0; n < count; n++)
        at = words[at];
    return at;
}

SEPARATE uint64_t hit(uint64_t rounds)
{
    uint64_t sum = 0;
    for (uint64_t round = 0; round < rounds; round++)
        for (int n = 0; n < SMALL_WORDS; n++)
            sum += ((volatile uint64_t *)small)[n];
    return sum;
}

int main(int argc, char **argv)
{
    long megabytes = 256, chases = 0, hits = 0;
    const struct known_option options[] = {{"--megabytes", &megabytes, 1, 65536},
                                           {"--chase", &chases, 0, 1000000},
                                           {"--hits", &hits, 0, 1000000000}};
    known_options(argc, argv, options, 3);
    uint64_t lines = (uint64_t)megabytes * (1 << 20) / 64, accesses = 0, sum = 1;
    uint64_t *words = chases > 0 ? aligned_alloc(64, lines * 64) : NULL;
    if (chases > 0 && !words)
        known_impossible("have that much memory");
    if (words)
        link_lines(words, lines);
    for (int n = 0; n < SMALL_WORDS; n++)
        small[n] = (uint64_t)n * 7;
    puts("ready=1");
    fflush(stdout);
    int64_t began = known_clock(CLOCK_MONOTONIC);
    if (words) {
        sum = sum_of(sum, chase(words, lines * (uint64_t)chases));
        accesses += lines * (uint64_t)chases;
    }
    sum = sum_of(sum, hit((uint64_t)hits));
    accesses += SMALL_WORDS * (uint64_t)hits;
    int64_t took = known_clock(CLOCK_MONOTONIC) - began;
    printf("accesses=%llu\nloop_seconds=%.6f\n", (unsigned long long)accesses, (double)took / 1e9);
    free(words);
    return checked_end(sum, 1);
}
