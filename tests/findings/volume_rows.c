/* Adds up the same volume in the order of memory. */
#include "finding.h"
enum { N = 256 };
__attribute__((noinline)) static double add_up(const double *volume) {
    double sum = 0.0;
    for (size_t z = 0; z < N; z++)
        for (size_t y = 0; y < N; y++)
            for (size_t x = 0; x < N; x++) sum += volume[(z * N + y) * N + x];
    return sum;
}
int main(int argc, char **argv) {
    double *volume = huge((size_t)N * N * N * sizeof *volume);
    double limit = limit_of(argc, argv) + seconds();
    while (seconds() < limit) keep(add_up(volume));
}
