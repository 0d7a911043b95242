/* Two threads; one has eight times the work of the other. */
#include "finding.h"
static double part(int64_t steps) {
    double x = 1.0;
    for (int64_t i = 0; i < steps; i++) x = x * 1.0000001 + 1e-9;
    return x;
}
static int64_t whole;
static void *work(void *number) {
    keep(part(number == NULL ? whole : whole / 8));
    return NULL;
}
int main(int argc, char **argv) {
    whole = (int64_t)(limit_of(argc, argv) * 3e8);
    pthread_t threads[2];
    for (size_t t = 0; t < 2; t++) pthread_create(&threads[t], NULL, work, (void *)t);
    for (size_t t = 0; t < 2; t++) pthread_join(threads[t], NULL);
}
