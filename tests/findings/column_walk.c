/* Sums a matrix of 128 MiB column by column. */
#include "finding.h"
enum { N = 4096 };
__attribute__((noinline)) static double by_columns(const double *m) {
    double sum = 0.0;
    for (size_t j = 0; j < N; j++)
        for (size_t i = 0; i < N; i++) sum += m[i * N + j];
    return sum;
}
int main(int argc, char **argv) {
    double limit = limit_of(argc, argv);
    double *m = huge((size_t)N * N * sizeof *m);
    while (seconds() < limit) keep(by_columns(m));
}
