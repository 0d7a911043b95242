/* Asks a generator for the next number in each step of a loop: the same address, but never the same value. */
#include "finding.h"
static uint64_t state = 88172645463325252u;
__attribute__((noinline)) uint64_t roll(void) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return state >> 33;
}
__attribute__((noinline)) static void apply(uint32_t *values, size_t n) {
    for (size_t i = 0; i < n; i++) values[i] ^= (uint32_t)roll();
}
int main(int argc, char **argv) {
    double limit = limit_of(argc, argv);
    uint32_t *values = huge(8192 * sizeof *values);
    while (seconds() < limit)
        for (int round = 0; round < 100; round++) apply(values, 8192);
}
