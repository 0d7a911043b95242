/* Two threads count for themselves and add up at the end of each piece. */
#include "finding.h"
static uint64_t counter;
static double limit;
__attribute__((noinline)) static uint64_t count(int n) {
    volatile uint64_t own = 0;
    for (int i = 0; i < n; i++) own++;
    return own;
}
static void *work(void *unused) {
    while (seconds() < limit) __atomic_fetch_add(&counter, count(1 << 18), __ATOMIC_RELAXED);
    return unused;
}
int main(int argc, char **argv) {
    limit = limit_of(argc, argv);
    pthread_t threads[2];
    for (size_t t = 0; t < 2; t++) pthread_create(&threads[t], NULL, work, NULL);
    for (size_t t = 0; t < 2; t++) pthread_join(threads[t], NULL);
}
