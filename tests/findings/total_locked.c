/* Two threads add to one total under a lock that they take for each number. */
#include "finding.h"
static int taken;
static uint64_t total;
static double limit;
__attribute__((noinline)) static void add(int n) {
    for (int i = 0; i < n; i++) {
        while (__atomic_exchange_n(&taken, 1, __ATOMIC_ACQUIRE)) __builtin_ia32_pause();
        total += (uint64_t)i;
        __atomic_store_n(&taken, 0, __ATOMIC_RELEASE);
    }
}
static void *work(void *unused) {
    while (seconds() < limit) add(1 << 14);
    return unused;
}
int main(int argc, char **argv) {
    limit = limit_of(argc, argv);
    pthread_t threads[2];
    for (size_t t = 0; t < 2; t++) pthread_create(&threads[t], NULL, work, NULL);
    for (size_t t = 0; t < 2; t++) pthread_join(threads[t], NULL);
}
