/* Allocates its blocks once and works on them. */
#include "finding.h"
enum { BLOCKS = 1000 };
__attribute__((noinline)) static uint64_t piece(uint64_t **blocks, uint64_t *state) {
    uint64_t sum = 0;
    for (int i = 0; i < BLOCKS; i++)
        for (int round = 0; round < 8; round++) sum += blocks[i][next_random(state) % 4] += round;
    return sum;
}
int main(int argc, char **argv) {
    double limit = limit_of(argc, argv);
    uint64_t *blocks[BLOCKS], state = 88172645463325252u;
    for (int i = 0; i < BLOCKS; i++) blocks[i] = calloc(4, sizeof **blocks);
    while (seconds() < limit) keep_word(piece(blocks, &state));
}
