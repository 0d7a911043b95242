/* Circuit simulation: dense blocks of 64 unknowns are factored with a search of the pivot down each column, in
   strides of 256 bytes, and whole columns are scaled: looks like a strided walk, but a block has 16 KB, and the
   elimination along the rows takes the time. ALIKE gathers each column into a row of its own first. Measured: 1.00
   to 1.02 times the speed (per CPU time). */
#include <math.h>
#include "finding.h"

enum { N = 64 };

static int find_pivot(float (*a)[N], int k) {
    int best = k;
#ifdef ALIKE
    float column[N];
    for (int i = k; i < N; i++) column[i] = fabsf(a[i][k]);
    for (int i = k + 1; i < N; i++)
        if (column[i] > column[best]) best = i;
#else
    for (int i = k + 1; i < N; i++)
        if (fabsf(a[i][k]) > fabsf(a[best][k])) best = i;
#endif
    return best;
}

static float factor(float (*a)[N]) {
    float determinant = 1.f;
    for (int k = 0; k < N; k++) {
        int p = find_pivot(a, k);
        if (p != k)
            for (int j = 0; j < N; j++) {
                float swapped = a[k][j];
                a[k][j] = a[p][j], a[p][j] = swapped;
            }
        float pivot = a[k][k], inverse = 1.f / pivot;
        determinant *= pivot;
        for (int i = k + 1; i < N; i++) a[i][k] *= inverse;
        for (int i = k + 1; i < N; i++)
            for (int j = k + 1; j < N; j++) a[i][j] -= a[i][k] * a[k][j];
    }
    return determinant;
}

int main(int argc, char **argv) {
    double until = limit_of(argc, argv), blocks = 0, sum = 0;
    static float devices[4][N][N], block[N][N];
    uint64_t random = 16;
    for (int d = 0; d < 4; d++)
        for (int i = 0; i < N; i++)
            for (int j = 0; j < N; j++) devices[d][i][j] = (float)(next_random(&random) % 1000) * 1e-3f - .5f;
    for (int d = 0; seconds() < until; d = (d + 1) % 4, blocks++) {
        memcpy(block, devices[d], sizeof block);
        sum += factor(block);
    }
    keep(sum);
    printf("%.1f thousand blocks/s\n", blocks / 1e3 / until);
}
