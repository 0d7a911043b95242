/* Each thread keeps sums of its own, but in an array of small structures. */
#include "finding.h"
struct sums { volatile double sum, squares; } sums[2] __attribute__((aligned(64)));
static double limit;
__attribute__((noinline)) static void add(struct sums *own, const double *values, int n) {
    for (int i = 0; i < n; i++) {
        own->sum += values[i];
        own->squares += values[i] * values[i];
    }
}
static void *work(void *number) {
    double values[512];
    for (int i = 0; i < 512; i++) values[i] = (double)i;
    while (seconds() < limit)
        for (int round = 0; round < 1000; round++) add(&sums[(size_t)number], values, 512);
    return NULL;
}
int main(int argc, char **argv) {
    limit = limit_of(argc, argv);
    pthread_t threads[2];
    for (size_t t = 0; t < 2; t++) pthread_create(&threads[t], NULL, work, (void *)t);
    for (size_t t = 0; t < 2; t++) pthread_join(threads[t], NULL);
}
