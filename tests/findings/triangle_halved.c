/* Two threads share the rows of a triangle by halves: the second has three quarters of the work. */
#include "finding.h"
static int rows;
static void *work(void *half) {
    int from = half == NULL ? 0 : rows / 2, to = half == NULL ? rows / 2 : rows;
    double sum = 0.0;
    for (int i = from; i < to; i++)
        for (int j = 0; j < i; j++) sum += 1.0 / (double)(i + j + 1);
    keep(sum);
    return NULL;
}
int main(int argc, char **argv) {
    rows = (int)(limit_of(argc, argv) * 13000.0);
    pthread_t threads[2];
    for (size_t t = 0; t < 2; t++) pthread_create(&threads[t], NULL, work, (void *)t);
    for (size_t t = 0; t < 2; t++) pthread_join(threads[t], NULL);
}
