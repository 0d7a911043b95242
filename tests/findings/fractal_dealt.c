/* The same fractal, whose rows two threads take one by one as they get done. */
#include "fractal.h"
static size_t rows_taken;
static void *draw(void *unused) {
    for (size_t row; (row = __atomic_fetch_add(&rows_taken, 1, __ATOMIC_RELAXED)) < SIDE;)
        for (size_t column = 0; column < SIDE; column++)
            picture[row][column] = (unsigned char)escape(-2.0 + 3.0 * (double)column / SIDE, 1.5 * (double)row / SIDE);
    return unused;
}
int main(int argc, char **argv) {
    double limit = limit_of(argc, argv);
    while (seconds() < limit) {
        pthread_t other;
        rows_taken = 0;
        pthread_create(&other, NULL, draw, NULL);
        draw(NULL);
        pthread_join(other, NULL);
        keep_word((uintptr_t)picture);
    }
}
