/* Tokens of a language model: a matrix of weights of 1 GiB, far beyond the last-level cache, times one vector, by two
   threads that read each weight once per token. Cause: the memory's bandwidth. FIXED computes four tokens at a time:
   2.5 times the speed per token. */
#include "finding.h"

enum { COLUMNS = 4096, ROWS = 65536, THREADS = 2 };
#ifdef FIXED
enum { TOGETHER = 4 };
#else
enum { TOGETHER = 1 };
#endif
typedef float eight __attribute__((vector_size(32)));

static float *weights;
static float input[TOGETHER][COLUMNS] __attribute__((aligned(64))), output[ROWS][TOGETHER];
static double until;
static long tokens[THREADS];

__attribute__((target("avx2,fma"))) static void row_times_inputs(const float *row, float *into) {
    for (int t = 0; t < TOGETHER; t++) {
        eight a = {0}, b = {0}, c = {0}, d = {0};
        for (size_t at = 0; at < COLUMNS; at += 32) {
            a += *(const eight *)(row + at) * *(const eight *)(&input[t][at]);
            b += *(const eight *)(row + at + 8) * *(const eight *)(&input[t][at + 8]);
            c += *(const eight *)(row + at + 16) * *(const eight *)(&input[t][at + 16]);
            d += *(const eight *)(row + at + 24) * *(const eight *)(&input[t][at + 24]);
        }
        a += b + c + d;
        into[t] = a[0] + a[1] + a[2] + a[3] + a[4] + a[5] + a[6] + a[7];
    }
}

static void *layers(void *argument) {
    size_t self = (size_t)argument, first = self * ROWS / THREADS, last = (self + 1) * ROWS / THREADS;
    while (seconds() < until) {
        for (size_t r = first; r < last; r++) row_times_inputs(weights + r * COLUMNS, output[r]);
        tokens[self] += TOGETHER;
    }
    return NULL;
}

int main(int argc, char **argv) {
    until = limit_of(argc, argv);
    weights = huge(sizeof(float) * COLUMNS * ROWS);
    for (int t = 0; t < TOGETHER; t++)
        for (size_t c = 0; c < COLUMNS; c++) input[t][c] = (float)c * 1e-3f;
    double begun = seconds();
    pthread_t threads[THREADS];
    for (size_t t = 0; t < THREADS; t++) pthread_create(&threads[t], NULL, layers, (void *)t);
    for (size_t t = 0; t < THREADS; t++) pthread_join(threads[t], NULL);
    keep(output[7][0]);
    printf("%.2f tokens/s\n", (double)(tokens[0] + tokens[1]) / 2 / (seconds() - begun));
    return 0;
}
