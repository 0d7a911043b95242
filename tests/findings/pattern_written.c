/* Two threads write a pattern over 256 MiB and read none of it. */
#include "finding.h"
enum { N = 32 << 20 };
static uint64_t *m;
static double limit;
__attribute__((noinline)) static void write_pattern(uint64_t *to, size_t n, uint64_t seed) {
    for (size_t i = 0; i < n; i++) to[i] = seed + i * 0x9e3779b97f4a7c15u;
}
static void *work(void *half) {
    for (uint64_t seed = 0; seconds() < limit; seed++) write_pattern(m + (size_t)half * (N / 2), N / 2, seed);
    return NULL;
}
int main(int argc, char **argv) {
    m = huge((size_t)N * sizeof *m);
    limit = limit_of(argc, argv) + seconds();
    pthread_t threads[2];
    for (size_t t = 0; t < 2; t++) pthread_create(&threads[t], NULL, work, (void *)t);
    for (size_t t = 0; t < 2; t++) pthread_join(threads[t], NULL);
}
