/* Samples a table of 2 GiB in small pages at hashed places and keeps the largest. */
#include "finding.h"
__attribute__((noinline)) static float largest(const float *table, uint64_t mask, uint32_t seed, int n) {
    float most = 0.0f;
    for (int i = 0; i < n; i++) {
        uint64_t at = ((uint64_t)(seed + (uint32_t)i) * 0x9e3779b97f4a7c15u) >> 30 & mask;
        most = table[at] > most ? table[at] : most;
    }
    return most;
}
int main(int argc, char **argv) {
    uint64_t words = (uint64_t)1 << 29;
    float *table = mmap(NULL, words * 4, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (table == MAP_FAILED) return 2;
    double limit = limit_of(argc, argv) + seconds();
    for (uint32_t seed = 0; seconds() < limit; seed += 1 << 20) keep((double)largest(table, words - 1, seed, 1 << 20));
}
