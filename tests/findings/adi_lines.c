/* Heat conduction by alternating directions: a tridiagonal system per row, then one per column, on 3000 x 4000
   doubles stored by rows. Cause: the columns' systems walk memory in strides of 24 KB, forward and back, and fetch a
   line per element. FIXED takes the elimination of all columns one row at a time. Measured: 1.4 to 2.2 times the
   speed (median 1.6). */
#include "finding.h"

enum { Nx = 3000, Ny = 4000 };
#define U(x, y) u[(size_t)(y) * Nx + (size_t)(x)]

static double *u, pivot[Ny > Nx ? Ny : Nx];

static void factor(int n, double r) {
    pivot[0] = 1.0 / (1.0 + 2.0 * r);
    for (int i = 1; i < n; i++) pivot[i] = 1.0 / (1.0 + 2.0 * r - r * r * pivot[i - 1]);
}

static void solve_along_x(double r) {
    factor(Nx, r);
    for (int y = 0; y < Ny; y++) {
        U(0, y) *= pivot[0];
        for (int x = 1; x < Nx; x++) U(x, y) = (U(x, y) + r * U(x - 1, y)) * pivot[x];
        for (int x = Nx - 2; x >= 0; x--) U(x, y) += r * pivot[x] * U(x + 1, y);
    }
}

static void solve_along_y(double r) {
    factor(Ny, r);
#ifdef FIXED
    for (int x = 0; x < Nx; x++) U(x, 0) *= pivot[0];
    for (int y = 1; y < Ny; y++)
        for (int x = 0; x < Nx; x++) U(x, y) = (U(x, y) + r * U(x, y - 1)) * pivot[y];
    for (int y = Ny - 2; y >= 0; y--)
        for (int x = 0; x < Nx; x++) U(x, y) += r * pivot[y] * U(x, y + 1);
#else
    for (int x = 0; x < Nx; x++) {
        U(x, 0) *= pivot[0];
        for (int y = 1; y < Ny; y++) U(x, y) = (U(x, y) + r * U(x, y - 1)) * pivot[y];
        for (int y = Ny - 2; y >= 0; y--) U(x, y) += r * pivot[y] * U(x, y + 1);
    }
#endif
}

int main(int argc, char **argv) {
    double until = limit_of(argc, argv);
    u = huge((size_t)Nx * Ny * sizeof *u);
    for (int y = 0; y < Ny; y++)
        for (int x = 0; x < Nx; x++) U(x, y) = 20.0 + (x * 7 + y * 13) % 100;
    double begun = seconds();
    int steps = 0;
    for (; seconds() < until; steps++) solve_along_x(.3), solve_along_y(.3);
    keep(U(17, 19));
    printf("%.2f million cells/s\n", steps * (double)Nx * Ny / 1e6 / (seconds() - begun));
}
