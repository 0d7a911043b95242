/*
 * Recipe R4, step 3: multiply2 with threads pinned one per core and each thread initialising the rows of
 * a, b, c that it will use (first touch); see matrix.c for both.
 *
 * What an analysis should show: hardly faster than multiply2. Rows of a and c are now local, but every thread
 * reads all of b (8 * size^3 bytes in total), and with n memory nodes (n - 1)/n of b is still remote. On a machine
 * with one node there is no remote memory to show.
 */
#include "matrix.h"

void multiply2_pinned(const struct share *share)
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
    .summary = "Dense matrix multiplication, i-k-j, threads pinned, rows first touched by their user (recipe R4).",
    .multiply = multiply2_pinned,
    .pinned_first_touch = true,
};
