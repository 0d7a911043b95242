/* Two threads go through phases; in each, one has five times the work of the other, and by turns. */
#include "finding.h"
static pthread_barrier_t end_of_phase;
static int phases;
static void *work(void *number) {
    for (int phase = 0; phase < phases; phase++) {
        compute_for((phase & 1) == (number == NULL) ? 5e-3 : 1e-3);
        pthread_barrier_wait(&end_of_phase);
    }
    return NULL;
}
int main(int argc, char **argv) {
    phases = (int)(limit_of(argc, argv) / 5e-3);
    pthread_barrier_init(&end_of_phase, NULL, 2);
    pthread_t threads[2];
    for (size_t t = 0; t < 2; t++) pthread_create(&threads[t], NULL, work, (void *)t);
    for (size_t t = 0; t < 2; t++) pthread_join(threads[t], NULL);
}
