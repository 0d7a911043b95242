/* Middle stages of a Fourier transform that take all pairs of one factor first, from one end of the signal to the other. */
enum { POINTS = 16 << 20 };
#include "butterflies.h"
int main(int argc, char **argv) {
    struct point *signal = huge(POINTS * sizeof *signal);
    for (size_t i = 0; i < POINTS; i++) signal[i].re = (float)(i % 7) - 3.0f;
    double limit = limit_of(argc, argv) + seconds();
    for (size_t half = 256; seconds() < limit; half = half == 4096 ? 256 : 2 * half) stage(signal, half);
}
