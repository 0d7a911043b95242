/* Fills 2 GiB once, in small pages. */
#include "finding.h"
__attribute__((noinline)) static void fill(double *m, size_t n) {
    for (size_t i = 0; i < n; i++) m[i] = 1.0;
}
int main(int argc, char **argv) {
    size_t n = (size_t)(limit_of(argc, argv) / 3.0 * (256 << 20));
    double *m = malloc(n * sizeof *m);
    if (m == NULL) return 2;
    fill(m, n);
    keep(m[n / 2]);
}
