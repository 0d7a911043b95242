/* Two threads each note their progress in a byte of one word at every step. */
#include "finding.h"
static volatile unsigned char progress[8] __attribute__((aligned(64)));
static double limit;
__attribute__((noinline)) static uint32_t steps(int own, uint32_t x) {
    for (int i = 0; i < 1 << 20; i++) {
        x = x * 1664525u + 1013904223u;
        progress[own] = (unsigned char)(x >> 24);
    }
    return x;
}
static void *work(void *number) {
    uint32_t x = 1;
    while (seconds() < limit) x = steps((int)(size_t)number * 4, x);
    keep_word(x);
    return NULL;
}
int main(int argc, char **argv) {
    limit = limit_of(argc, argv);
    pthread_t threads[2];
    for (size_t t = 0; t < 2; t++) pthread_create(&threads[t], NULL, work, (void *)t);
    for (size_t t = 0; t < 2; t++) pthread_join(threads[t], NULL);
}
