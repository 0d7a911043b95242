/* Moves particles of 128 bytes along one axis: two of sixteen numbers are used. */
#include "finding.h"
struct particle { double x, vx, rest[14]; };
enum { N = 1 << 20 };
__attribute__((noinline)) static void move(struct particle *all, double step) {
    for (size_t i = 0; i < N; i++) all[i].x += all[i].vx * step;
}
int main(int argc, char **argv) {
    double limit = limit_of(argc, argv);
    struct particle *all = huge(N * sizeof *all);
    while (seconds() < limit) move(all, 1e-3);
}
