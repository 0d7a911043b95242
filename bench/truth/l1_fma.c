/*
 * Multiply-adds over 16 KB, again and again: the core is the limit, memory idle.
 *
 * Core-bound. Per vector of 4 doubles one load and one FMA (8 flops), into 8 sums that do not wait for each other.
 */
#include "truth.h"

enum { ELEMENTS = 2048, SUMS = 8 };

struct loop {
    size_t repeat;
    double sum[MAX_THREADS][LINE / sizeof(double)];
};

static void fma_loop(size_t thread, size_t threads, void *context)
{
    (void)threads;
    struct loop *loop = context;
    double *array = array_of(ELEMENTS * sizeof(double), 0);
    fill(array, ELEMENTS, 1.0);
    __m256d sums[SUMS];
    for (int n = 0; n < SUMS; n++)
        sums[n] = _mm256_setzero_pd();
    const __m256d factor = _mm256_set1_pd(0.5);
    for (size_t round = 0; round < loop->repeat; round++) {
        for (size_t i = 0; i < ELEMENTS; i += SUMS * VECTOR)
#pragma GCC unroll 8
            for (int n = 0; n < SUMS; n++)
                sums[n] = _mm256_fmadd_pd(_mm256_load_pd(array + i + n * VECTOR), factor, sums[n]);
        __asm__ volatile("" : : : "memory");
    }
    double sum = 0;
    for (int n = 0; n < SUMS; n++) {
        double lanes[VECTOR];
        _mm256_storeu_pd(lanes, sums[n]);
        sum += lanes[0] + lanes[1] + lanes[2] + lanes[3];
    }
    loop->sum[thread][0] = sum;
    free(array);
}

int main(int argc, char **argv)
{
    size_t repeat = 10000000, threads = 1;
    const struct argument table[] = {
        {"--repeat", "times over the 16 KB", &repeat, 1, (size_t)1 << 40, NULL},
        {"--threads", "threads", &threads, 1, MAX_THREADS, NULL},
    };
    read_arguments(argc, argv, "FMA in the first-level cache.", table, sizeof table / sizeof *table);
    static struct loop loop;
    loop.repeat = repeat;
    struct truth truth = unknown_truth("l1_fma", threads, repeat);
    truth.seconds = run_phase(threads, fma_loop, &loop);
    const double vectors = (double)repeat * (double)threads * ELEMENTS / VECTOR;
    if (loop.sum[0][0] != 0.5 * ELEMENTS * (double)repeat)
        fail("wrong sum: %.17g", loop.sum[0][0]);
    truth.read_bytes = truth.written_bytes = 0;
    truth.loads = vectors;
    truth.stores = (double)threads * ELEMENTS / VECTOR;
    truth.flops = 2 * VECTOR * vectors;
    truth.levels[L1] = 1;
    truth.levels[L2] = truth.levels[L3] = truth.levels[DRAM] = 0;
    print_truth(&truth);
    return 0;
}
