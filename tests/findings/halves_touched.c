/* Two threads each fill half of 3 GiB for the first time. */
#include "finding.h"
static uint64_t *m;
static size_t words;
__attribute__((noinline)) static void fill(uint64_t *to, size_t n) {
    for (size_t i = 0; i < n; i++) to[i] = i;
}
static void *work(void *half) {
    fill(m + (size_t)half * (words / 2), words / 2);
    return NULL;
}
int main(int argc, char **argv) {
    words = (size_t)(limit_of(argc, argv) * (128 << 20));
    m = malloc(words * sizeof *m);
    if (m == NULL) return 2;
    pthread_t threads[2];
    for (size_t t = 0; t < 2; t++) pthread_create(&threads[t], NULL, work, (void *)t);
    for (size_t t = 0; t < 2; t++) pthread_join(threads[t], NULL);
    keep_word(m[words / 2]);
}
