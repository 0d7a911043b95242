/*
 * Recipe R1, before the fix: c = 3a + b over arrays in a libpmemobj pool, the handles turned into pointers
 * inside the loop.
 *
 * What an analysis should show: the time is in `pmemobj_direct_inline`, a static inline function of the
 * library's header base.h, reached from the macros D_RW and D_RO of types.h, three times per element. It
 * compares the pool's id and reads a thread-local cache; the compiler must repeat that because the store to
 * c[i] could have changed `_pobj_cache_invalidate`, which is an int too. So the memory is far from saturated.
 * Traffic and sizes: see pmdk_triad.h. The fix is pmdk_triad_after.c.
 */
#include "pmdk_triad.h"

static void triad(TOID(int) a, TOID(int) b, TOID(int) c, size_t elements)
{
    /* firstprivate keeps the handles in each thread's registers, so that what is left is the library's work. With
     * shared handles gcc copies them from the starting thread's stack at each use, and the copying, which belongs
     * to this function's line, takes more samples than the library (measured: 54 % against 37 %; so: 21 and 68). */
#pragma omp parallel for firstprivate(a, b, c)
    for (size_t i = 0; i < elements; i++)
        D_RW(c)[i] = 3 * D_RO(a)[i] + D_RO(b)[i];
}

int main(int argc, char **argv)
{
    return run_triad(argc, argv, "Triad over a PMDK pool, handles dereferenced inside the loop (recipe R1, before).",
                     triad);
}
