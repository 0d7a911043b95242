/* The same triangle; each thread takes the next row that is left. */
#include "finding.h"
static int rows, next_row;
static void *work(void *unused) {
    double sum = 0.0;
    for (int i; (i = __atomic_fetch_add(&next_row, 1, __ATOMIC_RELAXED)) < rows;)
        for (int j = 0; j < i; j++) sum += 1.0 / (double)(i + j + 1);
    keep(sum);
    return unused;
}
int main(int argc, char **argv) {
    rows = (int)(limit_of(argc, argv) * 13000.0);
    pthread_t threads[2];
    for (size_t t = 0; t < 2; t++) pthread_create(&threads[t], NULL, work, NULL);
    for (size_t t = 0; t < 2; t++) pthread_join(threads[t], NULL);
}
