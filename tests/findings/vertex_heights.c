/* Finds the highest of vertices of 48 bytes. */
#include "finding.h"
struct vertex { float x, y, height, normal[3], colour[4], texture[2]; };
enum { N = 3 << 20 };
__attribute__((noinline)) static float highest(const struct vertex *all) {
    float most = 0.0f;
    for (size_t i = 0; i < N; i++) most = all[i].height > most ? all[i].height : most;
    return most;
}
int main(int argc, char **argv) {
    struct vertex *all = huge(N * sizeof *all);
    double limit = limit_of(argc, argv) + seconds();
    while (seconds() < limit) keep((double)highest(all));
}
