/* A thread draws the upper half of a fractal, or the lower, in which nearly all lies that takes long. */
#pragma once
#include "fractal.h"
static void *draw(void *half) {
    size_t first = half == NULL ? 0 : SIDE / 2;
    for (size_t row = first; row < first + SIDE / 2; row++)
        for (size_t column = 0; column < SIDE; column++)
            picture[row][column] = (unsigned char)escape(-2.0 + 3.0 * (double)column / SIDE, 1.5 * (double)row / SIDE);
    return NULL;
}
