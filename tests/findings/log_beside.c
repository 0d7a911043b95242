/* One thread computes; another wakes up now and then, and has next to nothing to do. */
#include "fractal.h"
static void *log_progress(void *unused) {
    for (;;) {
        usleep(100000);
        compute_for(1e-4);
    }
    return unused;
}
int main(int argc, char **argv) {
    double limit = limit_of(argc, argv);
    pthread_t other;
    pthread_create(&other, NULL, log_progress, NULL);
    while (seconds() < limit)
        for (size_t row = 0; row < SIDE; row++)
            for (size_t column = 0; column < SIDE; column++)
                picture[row][column] = (unsigned char)escape(-2.0 + 3.0 * (double)column / SIDE, 1.5 * (double)row / SIDE);
}
