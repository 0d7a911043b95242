/* The same order of pairs in a short signal, all of it in the first-level cache. */
#include "finding.h"
enum { POINTS = 2048 };
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
int main(int argc, char **argv) {
    struct point *signal = huge(POINTS * sizeof *signal);
    double limit = limit_of(argc, argv) + seconds();
    while (seconds() < limit) {
        for (size_t i = 0; i < POINTS; i++) signal[i] = (struct point){(float)(i % 7) - 3.0f, 0.0f};
        for (int round = 0; round < 20; round++)
            for (size_t half = 8; half <= 128; half *= 2) stage(signal, half);
    }
}
