/* Twelve threads hash numbers. */
#include "finding.h"
static double limit;
static void *work(void *seed) {
    uint64_t state = 88172645463325252u + (uint64_t)(size_t)seed;
    while (seconds() < limit)
        for (int i = 0; i < 1 << 16; i++) keep_word(next_random(&state));
    return NULL;
}
int main(int argc, char **argv) {
    limit = limit_of(argc, argv);
    pthread_t threads[12];
    for (size_t t = 0; t < 12; t++) pthread_create(&threads[t], NULL, work, (void *)t);
    for (size_t t = 0; t < 12; t++) pthread_join(threads[t], NULL);
}
