/* An automaton with a random table of transitions: each state comes out of the last one's row. Whoever includes it
   says how many STATES there are. */
#pragma once
#include "finding.h"
enum { SYMBOLS = 16 };
__attribute__((noinline)) static uint32_t accept_text(uint32_t (*table)[SYMBOLS], uint32_t state, uint64_t *text) {
    for (int i = 0; i < 1 << 17; i++) state = table[state][next_random(text) >> 60];
    return state;
}
int main(int argc, char **argv) {
    uint32_t (*table)[SYMBOLS] = huge(STATES * sizeof *table), state = 0;
    uint64_t random = 88172645463325252u;
    for (size_t i = 0; i < STATES; i++)
        for (int symbol = 0; symbol < SYMBOLS; symbol++) table[i][symbol] = next_random(&random) % STATES;
    double limit = limit_of(argc, argv) + seconds();
    while (seconds() < limit) state = accept_text(table, state, &random);
    keep_word(state);
}
