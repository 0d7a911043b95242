/* Two threads are started anew for each picture and share its rows; before that the first thread computes alone, something else. */
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
        pthread_t threads[2];
        rows_taken = 0;
        compute_for(20e-3);
        for (int t = 0; t < 2; t++) pthread_create(&threads[t], NULL, draw, NULL);
        for (int t = 0; t < 2; t++) pthread_join(threads[t], NULL);
        keep_word((uintptr_t)picture);
    }
}
