/* Multiplies matrices of 64 x 64, which stay in the near caches. */
#include "finding.h"
enum { N = 64 };
__attribute__((noinline)) static void multiply(double *c, const double *a, const double *b) {
    for (int i = 0; i < N; i++)
        for (int k = 0; k < N; k++)
            for (int j = 0; j < N; j++) c[i * N + j] += a[i * N + k] * b[k * N + j];
}
int main(int argc, char **argv) {
    double limit = limit_of(argc, argv);
    double *m = huge(3 * N * N * sizeof *m);
    while (seconds() < limit)
        for (int round = 0; round < 10; round++) multiply(m, m + N * N, m + 2 * N * N);
}
