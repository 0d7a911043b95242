/* Sixteen workers sort small arrays of their own. */
#include "finding.h"
static double limit;
static int compare(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}
static void *work(void *seed) {
    uint32_t values[1000];
    uint64_t state = 88172645463325252u + (uint64_t)(size_t)seed;
    while (seconds() < limit) {
        for (int i = 0; i < 1000; i++) values[i] = (uint32_t)next_random(&state);
        qsort(values, 1000, sizeof *values, compare);
    }
    return NULL;
}
int main(int argc, char **argv) {
    limit = limit_of(argc, argv);
    pthread_t threads[16];
    for (size_t t = 0; t < 16; t++) pthread_create(&threads[t], NULL, work, (void *)t);
    for (size_t t = 0; t < 16; t++) pthread_join(threads[t], NULL);
}
