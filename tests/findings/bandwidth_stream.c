/* Two threads add arrays of 128 MiB: memory delivers what it can. */
#include "finding.h"
enum { N = 16 << 20 };
static double *a, *b, *c;
static double limit;
/* In place, so that no store could do without its load; no sum, whose additions would wait for each other. */
__attribute__((noinline)) static void add(size_t from, size_t to) {
    for (size_t i = from; i < to; i++) a[i] += b[i] + c[i];
}
static void *work(void *part) {
    size_t half = (size_t)part;
    while (seconds() < limit) add(half * N / 2, (half + 1) * N / 2);
    return NULL;
}
int main(int argc, char **argv) {
    limit = limit_of(argc, argv);
    a = huge(N * sizeof *a), b = huge(N * sizeof *b), c = huge(N * sizeof *c);
    pthread_t threads[2];
    for (size_t t = 0; t < 2; t++) pthread_create(&threads[t], NULL, work, (void *)t);
    for (size_t t = 0; t < 2; t++) pthread_join(threads[t], NULL);
}
