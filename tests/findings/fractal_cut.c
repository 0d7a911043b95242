/* Two threads draw the lower and the upper half of a fractal, but nearly all that takes long lies in the lower. */
#include "fractal_halves.h"
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
