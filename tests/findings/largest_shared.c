/* Two threads keep the latest of all their numbers in one place, by compare-and-swap. */
#include "finding.h"
static uint64_t latest;
static double limit;
__attribute__((noinline)) static void note(uint64_t seed, int n) {
    for (int i = 0; i < n; i++) {
        uint64_t known = __atomic_load_n(&latest, __ATOMIC_RELAXED), mine = known + seed;
        __atomic_compare_exchange_n(&latest, &known, mine, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    }
}
static void *work(void *number) {
    while (seconds() < limit) note((uint64_t)(size_t)number + 1, 1 << 16);
    return NULL;
}
int main(int argc, char **argv) {
    limit = limit_of(argc, argv);
    pthread_t threads[2];
    for (size_t t = 0; t < 2; t++) pthread_create(&threads[t], NULL, work, (void *)t);
    for (size_t t = 0; t < 2; t++) pthread_join(threads[t], NULL);
}
