/* Threads that draw a fractal take its rows one by one as they get done. */
#pragma once
#include "fractal.h"
static size_t rows_taken;
static void *draw(void *unused) {
    for (size_t row; (row = __atomic_fetch_add(&rows_taken, 1, __ATOMIC_RELAXED)) < SIDE;)
        for (size_t column = 0; column < SIDE; column++)
            picture[row][column] = (unsigned char)escape(-2.0 + 3.0 * (double)column / SIDE, 1.5 * (double)row / SIDE);
    return unused;
}
