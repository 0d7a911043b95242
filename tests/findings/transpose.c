/* Transposes a matrix of 128 MiB: reads along the lines, writes across them. */
#include "finding.h"
enum { N = 4096 };
__attribute__((noinline)) static void transpose(double *to, const double *from) {
    for (size_t i = 0; i < N; i++)
        for (size_t j = 0; j < N; j++) to[j * N + i] = from[i * N + j];
}
int main(int argc, char **argv) {
    double limit = limit_of(argc, argv);
    double *to = huge((size_t)N * N * sizeof *to), *from = huge((size_t)N * N * sizeof *from);
    while (seconds() < limit) transpose(to, from);
}
