/* The ground under a weather model: in each of 31 x 29 columns heat spreads downwards through 60 layers, and a layer of
   all columns lies together, so that the walk down steps by 7,192 bytes. Looks like a bad stride, but the three arrays
   stay in the second-level cache and the divisions of the solver take the time. ALIKE stores column by column: 0.98
   times the speed. */
#include "finding.h"

enum { NX = 31, NY = 29, LAYERS = 60 };
#ifdef ALIKE
#define AT(field, k, c) ground.field[c][k]
static struct {
    double heat[NX * NY][LAYERS], upper[NX * NY][LAYERS], conduct[NX * NY][LAYERS];
} ground;
#else
#define AT(field, k, c) ground.field[k][c]
static struct {
    double heat[LAYERS][NX * NY], upper[LAYERS][NX * NY], conduct[LAYERS][NX * NY];
} ground;
#endif

/* Thomas' algorithm for one column. */
static void solve(int c) {
    AT(upper, 0, c) = -AT(conduct, 0, c) / 2.5;
    for (int k = 1; k < LAYERS; k++) {
        double below = AT(conduct, k, c), pivot = 1.0 + 2.0 * below + below * AT(upper, k - 1, c);
        AT(upper, k, c) = -below / pivot;
        AT(heat, k, c) = (AT(heat, k, c) + below * AT(heat, k - 1, c)) / pivot;
    }
    for (int k = LAYERS - 2; k >= 0; k--) AT(heat, k, c) -= AT(upper, k, c) * AT(heat, k + 1, c);
}

int main(int argc, char **argv) {
    double until = limit_of(argc, argv);
    for (int c = 0; c < NX * NY; c++)
        for (int k = 0; k < LAYERS; k++) {
            AT(heat, k, c) = 280.0 + (c * 7 + k) % 11;
            AT(conduct, k, c) = 0.3 + 0.001 * (c % 13);
        }
    long steps = 0;
    for (; seconds() < until; steps++) {
        for (int c = 0; c < NX * NY; c++) AT(heat, 0, c) = 290.0;
        for (int c = 0; c < NX * NY; c++) solve(c);
    }
    keep(AT(heat, 5, 5));
    printf("%.1f steps/s\n", (double)steps / seconds());
    return 0;
}
