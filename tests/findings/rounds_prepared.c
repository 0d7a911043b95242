/* Two threads are started anew for each picture and share its rows; before that the first thread computes alone, something else. */
#include "fractal_rows.h"
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
