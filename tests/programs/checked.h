/*
 * What the targets of the correctness corpus share: a checksum, a repeatable generator, an end without figures that
 * change from run to run. Their whole output is the known answer: a run under a profiler must print the same bytes.
 */
#ifndef CHECKED_H
#define CHECKED_H

#include "known.h"

/* Order matters to it: a value lost, doubled or moved changes the sum. */
static inline uint64_t sum_of(uint64_t sum, uint64_t value)
{
    sum = (sum ^ value) * 0x9e3779b97f4a7c15u;
    return sum ^ sum >> 29;
}

/* xorshift64 (Marsaglia 2003); the state must not be 0. */
static inline uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    return *state ^= *state << 17;
}

/* The one option --rounds. */
static inline long checked_rounds(int argc, char **argv, long fallback)
{
    long rounds = fallback;
    known_options(argc, argv, &(struct known_option){"--rounds", &rounds, 1, 1000000000}, 1);
    return rounds;
}

/* The last lines, and the exit code. */
static inline int checked_end(uint64_t sum, int correct)
{
    printf("checksum=%016llx\nresult_correct=%s\nEXIT-SUCCESS\n", (unsigned long long)sum, correct ? "yes" : "no");
    fflush(stdout);
    return correct ? 0 : 1;
}

#endif
