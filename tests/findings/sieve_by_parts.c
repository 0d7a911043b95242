/* Two threads test numbers for primes, the lower and the upper half: testing large ones takes longer. */
#include "finding.h"
static uint64_t end;
static void *work(void *upper) {
    uint64_t from = upper == NULL ? 3 : end / 2, to = upper == NULL ? end / 2 : end, found = 0;
    for (uint64_t n = from | 1; n < to; n += 2) {
        uint64_t divisor = 3;
        while (divisor < n / 64 && n % divisor != 0) divisor += 2;
        found += divisor >= n / 64;
    }
    keep_word(found);
    return NULL;
}
int main(int argc, char **argv) {
    end = (uint64_t)(limit_of(argc, argv) * 100000.0);
    pthread_t threads[2];
    for (size_t t = 0; t < 2; t++) pthread_create(&threads[t], NULL, work, (void *)t);
    for (size_t t = 0; t < 2; t++) pthread_join(threads[t], NULL);
}
