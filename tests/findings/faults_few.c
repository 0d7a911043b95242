/* Fills 32 MiB in small pages, and then works on it for long. */
#include "finding.h"
enum { N = 4 << 20 };
__attribute__((noinline)) static void fill(double *m) {
    for (size_t i = 0; i < N; i++) m[i] = m[i] * 1.5 + 1.0 / (m[i] + 2.0) + 1.0 / (m[i] * m[i] + 3.0);
}
int main(int argc, char **argv) {
    double limit = limit_of(argc, argv);
    double *m = malloc(N * sizeof *m);
    if (m == NULL) return 2;
    while (seconds() < limit) fill(m);
    keep(m[N / 2]);
}
