/* A stage of a Fourier transform that takes all pairs of one factor first. Whoever includes it says how many POINTS the signal
   has. */
#pragma once
#include "finding.h"
struct point { float re, im; };
__attribute__((noinline)) static void stage(struct point *signal, size_t half) {
    struct point turn = {0.7071f, 0.0f};
    for (size_t j = 0; j < half; j++) {
        for (size_t k = j; k < POINTS; k += 2 * half) {
            struct point a = signal[k], b = signal[k + half];
            struct point c = {b.re * turn.re - b.im * turn.im, b.re * turn.im + b.im * turn.re};
            signal[k] = (struct point){a.re * 0.7071f + c.re, a.im * 0.7071f + c.im};
            signal[k + half] = (struct point){a.re * 0.7071f - c.re, a.im * 0.7071f - c.im};
        }
        turn = (struct point){turn.re - turn.im * 1e-4f, turn.im + turn.re * 1e-4f};
    }
}
