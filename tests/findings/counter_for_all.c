/* Two threads count in one atomic counter. */
#include "finding.h"
static uint64_t counter;
static double limit;
__attribute__((noinline)) static void count(int n) {
    for (int i = 0; i < n; i++) __atomic_fetch_add(&counter, 1, __ATOMIC_RELAXED);
}
static void *work(void *unused) {
    while (seconds() < limit) count(1 << 18);
    return unused;
}
int main(int argc, char **argv) {
    limit = limit_of(argc, argv);
    pthread_t threads[2];
    for (size_t t = 0; t < 2; t++) pthread_create(&threads[t], NULL, work, NULL);
    for (size_t t = 0; t < 2; t++) pthread_join(threads[t], NULL);
}
