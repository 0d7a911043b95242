/* Keeps one buffer for all rounds. */
#include "finding.h"
enum { N = 1 << 20 };
__attribute__((noinline)) static double round_trip(double *buffer, int round) {
    for (size_t i = 0; i < N; i++) buffer[i] = buffer[i] / 3.0 + 1.0 / (buffer[i] + (double)round);
    return buffer[N - 1];
}
int main(int argc, char **argv) {
    double limit = limit_of(argc, argv);
    double *buffer = mmap(NULL, N * sizeof *buffer, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (buffer == MAP_FAILED) return 2;
    for (int round = 0; seconds() < limit; round++) keep(round_trip(buffer, round));
}
