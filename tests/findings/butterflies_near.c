/* The same order of pairs in a short signal, all of it in the first-level cache. */
enum { POINTS = 2048 };
#include "butterflies.h"
int main(int argc, char **argv) {
    struct point *signal = huge(POINTS * sizeof *signal);
    double limit = limit_of(argc, argv) + seconds();
    while (seconds() < limit) {
        for (size_t i = 0; i < POINTS; i++) signal[i] = (struct point){(float)(i % 7) - 3.0f, 0.0f};
        for (int round = 0; round < 20; round++)
            for (size_t half = 8; half <= 128; half *= 2) stage(signal, half);
    }
}
