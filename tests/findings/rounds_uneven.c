/* Two threads are started anew for each picture, and draw a half of it each; most of the work lies in one half. */
#include "fractal_halves.h"
int main(int argc, char **argv) {
    double limit = limit_of(argc, argv);
    for (int turn = 0; seconds() < limit; turn ^= 1) {
        pthread_t threads[2];
        for (int t = 0; t < 2; t++) pthread_create(&threads[t], NULL, draw, t == turn ? NULL : picture);
        for (int t = 0; t < 2; t++) pthread_join(threads[t], NULL);
        keep_word((uintptr_t)picture);
    }
}
