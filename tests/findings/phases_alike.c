/* Two threads go through phases, with the same work in each. */
#include "finding.h"
static pthread_barrier_t end_of_phase;
static int phases;
static void *work(void *unused) {
    for (int phase = 0; phase < phases; phase++) {
        compute_for(50e-3);
        pthread_barrier_wait(&end_of_phase);
    }
    return unused;
}
int main(int argc, char **argv) {
    phases = (int)(limit_of(argc, argv) / 50e-3);
    pthread_barrier_init(&end_of_phase, NULL, 2);
    pthread_t threads[2];
    for (size_t t = 0; t < 2; t++) pthread_create(&threads[t], NULL, work, NULL);
    for (size_t t = 0; t < 2; t++) pthread_join(threads[t], NULL);
}
