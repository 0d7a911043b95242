/*
 * Recipe R1, after the fix: as pmdk_triad_before.c, with the three start addresses taken once per loop.
 *
 * What an analysis should show: elapsed time falls several times, `pmemobj_direct_inline` is gone from the
 * hot functions, and the DRAM bandwidth is near what the machine can do (when the arrays exceed its caches).
 * Traffic and sizes: see pmdk_triad.h.
 */
#include "pmdk_triad.h"

static void triad(TOID(int) a, TOID(int) b, TOID(int) c, size_t elements)
{
    const int *a_start = D_RO(a), *b_start = D_RO(b);
    int *c_start = D_RW(c);
#pragma omp parallel for
    for (size_t i = 0; i < elements; i++)
        c_start[i] = 3 * a_start[i] + b_start[i];
}

int main(int argc, char **argv)
{
    return run_triad(argc, argv, "Triad over a PMDK pool, addresses taken once before the loop (recipe R1, after).",
                     triad);
}
