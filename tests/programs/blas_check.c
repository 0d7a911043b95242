/* A target of the corpus: dgemm of OpenBLAS, kernels that it picked for this processor; whole numbers, so exact. */
#include "checked.h"

#include <cblas.h>

enum { N = 700 };

static double a[N * N], b[N * N], c[N * N];

int main(int argc, char **argv)
{
    long rounds = checked_rounds(argc, argv, 25), wrong = 0;
    uint64_t state = 88172645463325252u, sum = 1;
    for (int n = 0; n < N * N; n++) {
        a[n] = (double)(next_random(&state) % 100);
        b[n] = (double)(next_random(&state) % 100);
    }
    for (long round = 0; round < rounds; round++) {
        cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, N, N, N, 1, a, N, b, N, 0, c, N);
        int row = (int)(next_random(&state) % N), column = (int)(next_random(&state) % N);
        double expected = 0;
        for (int k = 0; k < N; k++)
            expected += a[row * N + k] * b[k * N + column];
        wrong += expected != c[row * N + column];
        for (int n = 0; n < N * N; n += 97)
            sum = sum_of(sum, (uint64_t)c[n]);
        a[row] = (double)(sum % 100);
    }
    printf("wrong=%ld\n", wrong);
    return checked_end(sum, wrong == 0);
}
