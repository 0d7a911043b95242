/* Two threads draw the lower and the upper half of a fractal, but nearly all that takes long lies in the lower. */
#include "fractal.h"
static void *draw(void *half) {
    size_t first = half == NULL ? 0 : SIDE / 2;
    for (size_t row = first; row < first + SIDE / 2; row++)
        for (size_t column = 0; column < SIDE; column++)
            picture[row][column] = (unsigned char)escape(-2.0 + 3.0 * (double)column / SIDE, 1.5 * (double)row / SIDE);
    return NULL;
}
int main(int argc, char **argv) {
    double limit = limit_of(argc, argv);
    while (seconds() < limit) {
        pthread_t other;
        pthread_create(&other, NULL, draw, picture);
        draw(NULL);
        pthread_join(other, NULL);
        keep_word((uintptr_t)picture);
    }
}
