/* The same, every other number for each thread. */
#include "finding.h"
static uint64_t end;
static void *work(void *odd) {
    uint64_t found = 0;
    for (uint64_t n = 3 + 2 * (uint64_t)(size_t)odd; n < end; n += 4) {
        uint64_t divisor = 2;
        while (divisor < 200) found += n % divisor++ == 0;
    }
    keep_word(found);
    return NULL;
}
int main(int argc, char **argv) {
    end = (uint64_t)(limit_of(argc, argv) * 2500000.0);
    pthread_t threads[2];
    for (size_t t = 0; t < 2; t++) pthread_create(&threads[t], NULL, work, (void *)t);
    for (size_t t = 0; t < 2; t++) pthread_join(threads[t], NULL);
}
