/* Asks for the thread's context in each step of a loop. */
#include "finding.h"
struct context { uint32_t shift, mask; };
static __thread struct context *current;
__attribute__((noinline)) uint32_t mask_now(void) { return current->mask >> current->shift; }
__attribute__((noinline)) static void apply(uint32_t *values, size_t n) {
    for (size_t i = 0; i < n; i++) values[i] ^= mask_now();
}
int main(int argc, char **argv) {
    double limit = limit_of(argc, argv);
    struct context own = {(uint32_t)argc, 0xffff00ffu};
    current = &own;
    uint32_t *values = huge(8192 * sizeof *values);
    while (seconds() < limit)
        for (int round = 0; round < 100; round++) apply(values, 8192);
}
