/*
 * Recipe R4, step 2: loops interchanged to i-k-j, so that b and c are walked along their rows.
 *
 * What an analysis should show: much faster than multiply1 (unit stride: whole lines are used, the prefetcher
 * helps), but every thread still reads all of b for each row of c: 8 * size^3 bytes of b in total. With b larger
 * than the caches that comes from DRAM; on several sockets all of it from the one that initialised it.
 */
#include "matrix.h"

void multiply2(const struct share *share)
{
    const size_t size = share->size;
    for (size_t i = share->first_row; i < share->end_row; i++) {
        double *restrict c_row = share->c + i * size;
        for (size_t k = 0; k < size; k++) {
            const double a_ik = share->a[i * size + k];
            const double *b_row = share->b + k * size;
#pragma omp simd
            for (size_t j = 0; j < size; j++)
                c_row[j] += a_ik * b_row[j];
        }
    }
}

const struct multiplication multiplication = {
    .summary = "Dense matrix multiplication, i-k-j (recipe R4).",
    .multiply = multiply2,
};
