/*
 * Recipe R4, step 5: the same product by OpenBLAS' cblas_dgemm, as the mark that the others are measured by.
 *
 * What an analysis should show: the time is in the library's dgemm kernel for this processor, near its peak
 * in floating-point operations, with little DRAM traffic: the library packs tiles of a and b into buffers.
 * The library's own threads do the work, --threads of them.
 */
#include "matrix.h"

#include <cblas.h>

/* OpenBLAS' own function, which the cblas.h of another BLAS on the include path would not declare. */
extern void openblas_set_num_threads(int threads);

void multiply5(const struct share *share)
{
    const blasint size = (blasint)share->size;
    openblas_set_num_threads((int)share->threads);
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, size, size, size, 1.0, share->a, size, share->b, size, 0.0,
                share->c, size);
}

const struct multiplication multiplication = {
    .summary = "Dense matrix multiplication by OpenBLAS dgemm (recipe R4).",
    .multiply = multiply5,
    .own_threads = true,
};
