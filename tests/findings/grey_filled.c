/* Two threads paint 256 MiB of pixels grey, over and over. */
#include "finding.h"
enum { N = 64 << 20 };
static float *pixels;
static double limit;
__attribute__((noinline)) static void paint(float *from, size_t n, float grey) {
    for (size_t i = 0; i < n; i++) from[i] = grey;
}
static void *work(void *half) {
    float grey = 0.0f;
    while (seconds() < limit) paint(pixels + (size_t)half * (N / 2), N / 2, grey += 0.25f);
    return NULL;
}
int main(int argc, char **argv) {
    pixels = huge((size_t)N * sizeof *pixels);
    limit = limit_of(argc, argv) + seconds();
    pthread_t threads[2];
    for (size_t t = 0; t < 2; t++) pthread_create(&threads[t], NULL, work, (void *)t);
    for (size_t t = 0; t < 2; t++) pthread_join(threads[t], NULL);
}
