/* Asks a function of its own for the same factor for each element. */
#include "finding.h"
struct settings { uint64_t flags; double *factors; };
enum { N = 4096 };
__attribute__((noinline)) double factor_of(const struct settings *settings) {
    return settings->flags & 1 ? settings->factors[3] : settings->factors[5];
}
__attribute__((noinline)) static void scale(double *a, const struct settings *settings) {
    for (size_t i = 0; i < N; i++) a[i] = a[i] * factor_of(settings) + 1.0;
}
int main(int argc, char **argv) {
    double limit = limit_of(argc, argv);
    double factors[8] = {0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5}, *a = huge(N * sizeof *a);
    struct settings settings = {(uint64_t)argc, factors};
    while (seconds() < limit)
        for (int round = 0; round < 100; round++) scale(a, &settings);
}
