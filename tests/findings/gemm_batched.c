/* The prompt of a language model: 512 MB of weights are read by two threads, each row once per batch of sixteen inputs
   that stay in the cache: looks like a stream, but a weight is used sixteen times. ALIKE reads the same few rows again
   and again: 1.0 times the speed. */
#include "finding.h"

enum { COLUMNS = 1024, ROWS = 128 << 10, BATCH = 16, THREADS = 2 };
typedef float four __attribute__((vector_size(16)));

struct layer {
    const float *weights;
    float (*output)[BATCH];
};

static float inputs[BATCH][COLUMNS] __attribute__((aligned(64)));
static struct layer layer;
static double until;
static long rows_done[THREADS * 16];

static void one_row(const float *row, float *output) {
    four sums[BATCH] = {{0}};
    for (size_t c = 0; c < COLUMNS; c += 4) {
        four weight = *(const four *)(row + c);
        for (int b = 0; b < BATCH; b++) sums[b] += weight * *(const four *)(&inputs[b][c]);
    }
    for (int b = 0; b < BATCH; b++) output[b] = sums[b][0] + sums[b][1] + sums[b][2] + sums[b][3];
}

static void *share(void *argument) {
    size_t self = (size_t)argument, first = self * ROWS / THREADS, count = ROWS / THREADS;
    for (size_t r = 0; seconds() < until; rows_done[16 * self] += 64)
        for (int i = 0; i < 64; i++, r = (r + 1) % count) {
#ifdef ALIKE
            size_t at = first + r % 64;
#else
            size_t at = first + r;
#endif
            one_row(layer.weights + at * COLUMNS, layer.output[at]);
        }
    return NULL;
}

int main(int argc, char **argv) {
    until = limit_of(argc, argv);
    layer = (struct layer){huge(sizeof(float) * COLUMNS * ROWS), huge(sizeof(float[BATCH]) * ROWS)};
    for (int b = 0; b < BATCH; b++)
        for (int c = 0; c < COLUMNS; c++) inputs[b][c] = (float)((b + c) % 31);
    double begun = seconds();
    pthread_t threads[THREADS];
    for (size_t t = 0; t < THREADS; t++) pthread_create(&threads[t], NULL, share, (void *)t);
    for (size_t t = 0; t < THREADS; t++) pthread_join(threads[t], NULL);
    keep(layer.output[3][1]);
    printf("%.0f thousand rows/s\n", (double)(rows_done[0] + rows_done[16]) / 1e3 / (seconds() - begun));
    return 0;
}
