/* Smooths an image of 6000 x 5000 pixels from top to bottom, one column after the other. */
#include "finding.h"
enum { WIDE = 6000, HIGH = 5000 };
__attribute__((noinline)) static void smooth(float *image) {
    for (size_t x = 0; x < WIDE; x++) {
        float before = image[x];
        for (size_t y = 1; y < HIGH; y++) before = image[y * WIDE + x] = 0.5f * (before + image[y * WIDE + x]);
    }
}
int main(int argc, char **argv) {
    float *image = huge((size_t)WIDE * HIGH * sizeof *image);
    double limit = limit_of(argc, argv) + seconds();
    while (seconds() < limit) smooth(image);
}
