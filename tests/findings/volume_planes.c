/* Adds up a volume of 128 MiB from plane to plane, the innermost loop across the planes. */
#include "finding.h"
enum { N = 256 };
__attribute__((noinline)) static double add_up(const double *volume) {
    double sum = 0.0;
    for (size_t y = 0; y < N; y++)
        for (size_t x = 0; x < N; x++)
            for (size_t z = 0; z < N; z++) sum += volume[(z * N + y) * N + x];
    return sum;
}
int main(int argc, char **argv) {
    double *volume = huge((size_t)N * N * N * sizeof *volume);
    double limit = limit_of(argc, argv) + seconds();
    while (seconds() < limit) keep(add_up(volume));
}
