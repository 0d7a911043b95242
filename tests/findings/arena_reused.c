/* Takes its small blocks from an arena that is emptied after each piece of work. */
#include "finding.h"
static char arena[64 << 10];
static size_t used;
static void *take(size_t bytes) {
    void *block = &arena[used];
    used += (bytes + 15) & ~(size_t)15;
    return block;
}
__attribute__((noinline)) static uint64_t piece(uint64_t *state) {
    uint64_t *kept[64], sum = 0;
    for (int i = 0; i < 64; i++) {
        kept[i] = take(64 + next_random(state) % 512);
        kept[i][0] = *state;
    }
    for (int i = 0; i < 64; i++) sum += kept[i][0];
    used = 0;
    return sum;
}
int main(int argc, char **argv) {
    double limit = limit_of(argc, argv);
    uint64_t state = 88172645463325252u;
    while (seconds() < limit)
        for (int round = 0; round < 1000; round++) keep_word(piece(&state));
}
