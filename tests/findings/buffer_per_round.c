/* Takes a buffer of 8 MiB from the system for each round and gives it back. */
#include "finding.h"
enum { N = 1 << 20 };
__attribute__((noinline)) static double round_trip(int round) {
    double *buffer = mmap(NULL, N * sizeof *buffer, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (buffer == MAP_FAILED) exit(2);
    for (size_t i = 0; i < N; i++) buffer[i] = (double)round;
    double last = buffer[N - 1];
    munmap(buffer, N * sizeof *buffer);
    return last;
}
int main(int argc, char **argv) {
    double limit = limit_of(argc, argv);
    for (int round = 0; seconds() < limit; round++) keep(round_trip(round));
}
