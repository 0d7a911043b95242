/* Two threads add to totals of their own, on the stack. */
#include "finding.h"
static double limit;
__attribute__((noinline)) static void add(volatile uint64_t *total, int n) {
    for (int i = 0; i < n; i++) *total += (uint64_t)i;
}
static void *work(void *unused) {
    volatile uint64_t total = 0;
    while (seconds() < limit) add(&total, 1 << 18);
    return unused;
}
int main(int argc, char **argv) {
    limit = limit_of(argc, argv);
    pthread_t threads[2];
    for (size_t t = 0; t < 2; t++) pthread_create(&threads[t], NULL, work, NULL);
    for (size_t t = 0; t < 2; t++) pthread_join(threads[t], NULL);
}
