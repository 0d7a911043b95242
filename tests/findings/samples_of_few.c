/* Samples a table of 16 KiB likewise. */
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
    float *table = huge(16 << 10);
    double limit = limit_of(argc, argv);
    for (uint32_t seed = 0; seconds() < limit; seed += 1 << 20) keep((double)largest(table, 4095, seed, 1 << 20));
}
