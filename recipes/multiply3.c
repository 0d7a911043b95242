/*
 * Recipe R4, step 4: the multiplication cut into tiles of --block x --block elements.
 *
 * What an analysis should show: loads are served by the first and second level caches, the bandwidth from
 * DRAM falls, and the rate comes near to dgemm (multiply5). A tile of b takes 8 * block^2 bytes (256: 512 KiB,
 * for the second level cache) and is used for all rows of the thread before the next one comes: each thread
 * reads b once, 8 * size^2 * threads bytes in total, and reads and writes its rows of c size / block times.
 */
#include "matrix.h"

static size_t smaller(size_t one, size_t other) { return one < other ? one : other; }

/* c_row += a_row * tile. Four rows of b at once, so that c_row is loaded and stored once for the four. */
static void multiply_row(double *restrict c_row, const double *a_row, const double *tile, size_t stride,
                         size_t rows, size_t columns)
{
    size_t k = 0;
    for (; k + 4 <= rows; k += 4) {
        const double a0 = a_row[k], a1 = a_row[k + 1], a2 = a_row[k + 2], a3 = a_row[k + 3];
        const double *b0 = tile + k * stride, *b1 = b0 + stride, *b2 = b1 + stride, *b3 = b2 + stride;
#pragma omp simd
        for (size_t j = 0; j < columns; j++)
            c_row[j] += a0 * b0[j] + a1 * b1[j] + a2 * b2[j] + a3 * b3[j];
    }
    for (; k < rows; k++)
#pragma omp simd
        for (size_t j = 0; j < columns; j++)
            c_row[j] += a_row[k] * tile[k * stride + j];
}

void multiply3(const struct share *share)
{
    const size_t size = share->size, block = share->block;
    for (size_t k = 0; k < size; k += block)
        for (size_t j = 0; j < size; j += block)
            for (size_t i = share->first_row; i < share->end_row; i++)
                multiply_row(share->c + i * size + j, share->a + i * size + k, share->b + k * size + j, size,
                             smaller(block, size - k), smaller(block, size - j));
}

const struct multiplication multiplication = {
    .summary = "Dense matrix multiplication in cache-sized tiles (recipe R4).",
    .multiply = multiply3,
    .blocked = true,
};
