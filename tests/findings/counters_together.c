/* Two threads count in neighbouring words. */
#include "finding.h"
static struct { volatile uint64_t count; } counters[2] __attribute__((aligned(64)));
static double limit;
__attribute__((noinline)) static void count(size_t own) {
    for (int i = 0; i < 1 << 20; i++) counters[own].count++;
}
static void *work(void *own) {
    while (seconds() < limit) count((size_t)own);
    return NULL;
}
int main(int argc, char **argv) {
    limit = limit_of(argc, argv);
    pthread_t threads[2];
    for (size_t t = 0; t < 2; t++) pthread_create(&threads[t], NULL, work, (void *)t);
    for (size_t t = 0; t < 2; t++) pthread_join(threads[t], NULL);
}
