/* A polynomial in registers. */
#include "finding.h"
__attribute__((noinline)) static double polynomial(int steps) {
    double x = 0.5, sum = 0.0;
    for (int i = 0; i < steps; i++) {
        x = x * 0.999999 + 1e-7;
        sum += ((x * 0.3 + 0.7) * x - 0.2) * x + 0.1;
    }
    return sum;
}
int main(int argc, char **argv) {
    double limit = limit_of(argc, argv);
    while (seconds() < limit) keep(polynomial(1 << 20));
}
