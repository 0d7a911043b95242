/* Follows links that are indices, through a random cycle over 64 MiB. */
#include "finding.h"
enum { N = 16 << 20 };
__attribute__((noinline)) static uint32_t follow(const uint32_t *next, uint32_t at, int steps) {
    for (int i = 0; i < steps; i++) at = next[at];
    return at;
}
static void shuffle_cycle(uint32_t *next, uint32_t n) {
    uint64_t state = 88172645463325252u;
    for (uint32_t i = 0; i < n; i++) next[i] = i;
    /* Sattolo: one cycle through all. */
    for (uint32_t i = n - 1; i > 0; i--) {
        uint32_t j = (uint32_t)(next_random(&state) % i), old = next[i];
        next[i] = next[j], next[j] = old;
    }
}
int main(int argc, char **argv) {
    uint32_t *next = huge((size_t)N * sizeof *next), at = 0;
    shuffle_cycle(next, N);
    double limit = limit_of(argc, argv) + seconds();
    while (seconds() < limit) keep_word(at = follow(next, at, 1 << 18));
}
