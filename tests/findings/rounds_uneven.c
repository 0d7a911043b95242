/* Two threads are started anew for each picture, and draw a half of it each; most of the work lies in one half. */
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
    for (int turn = 0; seconds() < limit; turn ^= 1) {
        pthread_t threads[2];
        for (int t = 0; t < 2; t++) pthread_create(&threads[t], NULL, draw, t == turn ? NULL : picture);
        for (int t = 0; t < 2; t++) pthread_join(threads[t], NULL);
        keep_word((uintptr_t)picture);
    }
}
