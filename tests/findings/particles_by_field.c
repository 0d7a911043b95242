/* The same movement with an array per field. */
#include "finding.h"
enum { N = 8 << 20 };
__attribute__((noinline)) static void move(double *x, const double *vx, double step) {
    for (size_t i = 0; i < N; i++) x[i] += vx[i] * step;
}
int main(int argc, char **argv) {
    double limit = limit_of(argc, argv);
    double *x = huge(N * sizeof *x), *vx = huge(N * sizeof *vx);
    while (seconds() < limit) move(x, vx, 1e-3);
}
