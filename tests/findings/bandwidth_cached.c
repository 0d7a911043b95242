/* The same sum over arrays that stay in the first-level cache: no memory at all. */
#include "finding.h"
enum { N = 1024 };
static double *a, *b, *c;
static double limit;
__attribute__((noinline)) static double add(void) {
    double sum = 0.0;
    for (size_t i = 0; i < N; i++) sum += a[i] + b[i] + c[i];
    return sum;
}
static void *work(void *unused) {
    while (seconds() < limit)
        for (int round = 0; round < 1000; round++) keep(add());
    return unused;
}
int main(int argc, char **argv) {
    limit = limit_of(argc, argv);
    a = huge(N * sizeof *a), b = huge(N * sizeof *b), c = huge(N * sizeof *c);
    pthread_t threads[2];
    for (size_t t = 0; t < 2; t++) pthread_create(&threads[t], NULL, work, NULL);
    for (size_t t = 0; t < 2; t++) pthread_join(threads[t], NULL);
}
