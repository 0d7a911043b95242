/* Two stages of a pipeline in two threads: one computes five times as long for each round as the other. */
#include "finding.h"
static double stage(int64_t steps, double x) {
    for (int64_t i = 0; i < steps; i++) x = x / 1.0000001 + 1e-9;
    return x;
}
static int rounds;
static pthread_barrier_t barrier;
static void *work(void *number) {
    double x = 1.0;
    for (int round = 0; round < rounds; round++) {
        x = stage(number == NULL ? 2000000 : 400000, x);
        pthread_barrier_wait(&barrier);
    }
    keep(x);
    return NULL;
}
int main(int argc, char **argv) {
    rounds = (int)(limit_of(argc, argv) * 60.0);
    pthread_barrier_init(&barrier, NULL, 2);
    pthread_t threads[2];
    for (size_t t = 0; t < 2; t++) pthread_create(&threads[t], NULL, work, (void *)t);
    for (size_t t = 0; t < 2; t++) pthread_join(threads[t], NULL);
}
