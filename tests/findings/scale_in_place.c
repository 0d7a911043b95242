/* Two threads scale 128 MiB in place: what is written was read before. */
#include "finding.h"
enum { N = 16 << 20 };
static double *a;
static double limit;
__attribute__((noinline)) static void scale(size_t from, size_t to) {
    for (size_t i = from; i < to; i++) a[i] = 1.01 * a[i];
}
static void *work(void *part) {
    size_t half = (size_t)part;
    while (seconds() < limit) scale(half * N / 2, (half + 1) * N / 2);
    return NULL;
}
int main(int argc, char **argv) {
    limit = limit_of(argc, argv);
    a = huge(N * sizeof *a);
    pthread_t threads[2];
    for (size_t t = 0; t < 2; t++) pthread_create(&threads[t], NULL, work, (void *)t);
    for (size_t t = 0; t < 2; t++) pthread_join(threads[t], NULL);
}
