/*
 * Recipe R4, step 1 (and R2): the naive multiplication, loops i-j-k.
 *
 * What an analysis should show: it scales with threads, yet reaches a small share of the machine's peak. The
 * inner loop walks down a column of b: each of its loads is `size` doubles after the last one, so every load
 * needs another cache line and, from size 512 on, another 4 KB page. Of the 64 bytes of a line that come in,
 * 8 are used: 8 * size^3 bytes needed of b, up to 64 * size^3 bytes moved.
 */
#include "matrix.h"

void multiply1(const struct share *share)
{
    const size_t size = share->size;
    const double *a = share->a, *b = share->b;
    double *c = share->c;
    for (size_t i = share->first_row; i < share->end_row; i++)
        for (size_t j = 0; j < size; j++)
            for (size_t k = 0; k < size; k++)
                c[i * size + j] += a[i * size + k] * b[k * size + j];
}

const struct multiplication multiplication = {
    .summary = "Dense matrix multiplication, naive i-j-k (recipes R2 and R4).",
    .multiply = multiply1,
};
