/* Allocates and frees a few blocks of mixed sizes for each small piece of work. */
#include "finding.h"
__attribute__((noinline)) static uint64_t piece(uint64_t *state) {
    uint64_t *kept[8], sum = 0;
    for (int i = 0; i < 8; i++) {
        kept[i] = malloc(1100 + next_random(state) % 4000);
        kept[i][0] = *state;
    }
    for (int i = 0; i < 8; i++) {
        sum += kept[i][0];
        free(kept[i]);
    }
    return sum;
}
int main(int argc, char **argv) {
    double limit = limit_of(argc, argv);
    uint64_t state = 88172645463325252u;
    while (seconds() < limit)
        for (int round = 0; round < 1000; round++) keep_word(piece(&state));
}
