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
#pragma omp parallel for
    for (size_t i = 0; i < elements; i++)
        D_RW(c)[i] = 3 * D_RO(a)[i] + D_RO(b)[i];
}

int main(int argc, char **argv)
{
    return run_triad(argc, argv, "Triad over a PMDK pool, handles dereferenced inside the loop (recipe R1, before).",
                     triad);
}
