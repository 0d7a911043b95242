/* Smooths the same image along its rows. */
#include "finding.h"
enum { WIDE = 6000, HIGH = 5000 };
__attribute__((noinline)) static void smooth(float *image) {
    for (size_t y = 0; y < HIGH; y++) {
        float before = image[y * WIDE];
        for (size_t x = 1; x < WIDE; x++) before = image[y * WIDE + x] = 0.5f * (before + image[y * WIDE + x]);
    }
}
int main(int argc, char **argv) {
    float *image = huge((size_t)WIDE * HIGH * sizeof *image);
    double limit = limit_of(argc, argv) + seconds();
    while (seconds() < limit) smooth(image);
}
