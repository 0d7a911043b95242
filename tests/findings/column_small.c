/* The same over a matrix that fits the first-level cache: the order does not matter. */
#include "finding.h"
enum { N = 48 };
__attribute__((noinline)) static double by_columns(const double *m) {
    double sum = 0.0;
    for (size_t j = 0; j < N; j++)
        for (size_t i = 0; i < N; i++) sum += m[i * N + j];
    return sum;
}
int main(int argc, char **argv) {
    double limit = limit_of(argc, argv);
    double *m = huge(N * N * sizeof *m);
    while (seconds() < limit)
        for (int round = 0; round < 1000; round++) keep(by_columns(m));
}
