/* Two threads widen 64 MiB of small numbers into 256 MiB of large ones. */
#include "finding.h"
enum { N = 32 << 20 };
static uint16_t *from;
static uint64_t *to;
static double limit;
__attribute__((noinline)) static void widen(size_t start, size_t end) {
    for (size_t i = start; i < end; i++) to[i] = from[i];
}
static void *work(void *half) {
    while (seconds() < limit) widen((size_t)half * (N / 2), ((size_t)half + 1) * (N / 2));
    return NULL;
}
int main(int argc, char **argv) {
    from = huge((size_t)N * sizeof *from), to = huge((size_t)N * sizeof *to);
    limit = limit_of(argc, argv) + seconds();
    pthread_t threads[2];
    for (size_t t = 0; t < 2; t++) pthread_create(&threads[t], NULL, work, (void *)t);
    for (size_t t = 0; t < 2; t++) pthread_join(threads[t], NULL);
}
