/* Two threads draw random numbers; their states lie in different lines. */
#include "finding.h"
static uint64_t seeds[16] __attribute__((aligned(128))) = {88172645463325252u, 88172645463325253u};
static double limit;
enum { APART = 8 };
__attribute__((noinline)) static void draw(volatile uint64_t *seed, int n) {
    for (int i = 0; i < n; i++) *seed = *seed * 6364136223846793005u + 1442695040888963407u;
}
static void *work(void *number) {
    while (seconds() < limit) draw(&seeds[(size_t)number * APART], 1 << 18);
    return NULL;
}
int main(int argc, char **argv) {
    limit = limit_of(argc, argv);
    pthread_t threads[2];
    for (size_t t = 0; t < 2; t++) pthread_create(&threads[t], NULL, work, (void *)t);
    for (size_t t = 0; t < 2; t++) pthread_join(threads[t], NULL);
}
