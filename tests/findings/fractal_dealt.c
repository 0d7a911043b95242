/* The same fractal, whose rows two threads take one by one as they get done. */
#include "fractal_rows.h"
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
