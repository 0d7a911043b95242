/*
 * Recipe R3: the four STREAM kernels (J. D. McCalpin, https://www.cs.virginia.edu/stream/), our own code.
 *
 * What an analysis should show: with 1, 2, 4 ... threads the rate stops growing while the threads stay
 * balanced and wait for nothing: the memory is saturated, and the arrays a, b, c use the bandwidth.
 *
 * Traffic per element as STREAM counts it (doubles, no write-allocate): copy and scale 16 bytes, add and
 * triad 24 bytes. Caches that fetch a line before writing it move 24 and 32 bytes. For a statement about
 * DRAM each array should be at least four times the last-level cache: --elements.
 * Best, average, minimum and maximum leave out the first round, as STREAM does.
 */
#include "common.h"

#include <float.h>
#include <math.h>
#include <omp.h>

static const double scalar = 3.0;

/* simd: -O2 alone does not vectorise a loop of unknown length in gcc 12. */
static void stream_copy(double *restrict c, const double *restrict a, size_t elements)
{
#pragma omp parallel for simd
    for (size_t i = 0; i < elements; i++)
        c[i] = a[i];
}

static void stream_scale(double *restrict b, const double *restrict c, size_t elements)
{
#pragma omp parallel for simd
    for (size_t i = 0; i < elements; i++)
        b[i] = scalar * c[i];
}

static void stream_add(double *restrict c, const double *restrict a, const double *restrict b, size_t elements)
{
#pragma omp parallel for simd
    for (size_t i = 0; i < elements; i++)
        c[i] = a[i] + b[i];
}

static void stream_triad(double *restrict a, const double *restrict b, const double *restrict c, size_t elements)
{
#pragma omp parallel for simd
    for (size_t i = 0; i < elements; i++)
        a[i] = b[i] + scalar * c[i];
}

enum kernel { COPY, SCALE, ADD, TRIAD, KERNELS };
static const char *const kernel_names[KERNELS] = {"Copy", "Scale", "Add", "Triad"};
static const size_t doubles_moved[KERNELS] = {2, 2, 3, 3};

struct timing {
    double best, worst, sum;
};

static void run_kernel(enum kernel kernel, double *a, double *b, double *c, size_t elements)
{
    switch (kernel) {
    case COPY: stream_copy(c, a, elements); break;
    case SCALE: stream_scale(b, c, elements); break;
    case ADD: stream_add(c, a, b, elements); break;
    default: stream_triad(a, b, c, elements); break;
    }
}

/* Average relative error of one array against the value that every element must have. */
static double error_of(const double *array, size_t elements, double expected)
{
    double sum = 0;
#pragma omp parallel for reduction(+ : sum)
    for (size_t i = 0; i < elements; i++)
        sum += fabs(array[i] - expected);
    return sum / (double)elements / fabs(expected);
}

/* Follows one element through all rounds and compares, with STREAM's limit for doubles. */
static void verify(const double *a, const double *b, const double *c, size_t elements, size_t repeat)
{
    double a_value = 1, b_value = 2, c_value = 0;
    for (size_t round = 0; round < repeat; round++) {
        c_value = a_value;
        b_value = scalar * c_value;
        c_value = a_value + b_value;
        a_value = b_value + scalar * c_value;
    }
    const double limit = 1e-13;
    double a_error = error_of(a, elements, a_value), b_error = error_of(b, elements, b_value);
    double c_error = error_of(c, elements, c_value);
    /* Written so that a NaN fails too. */
    if (!(a_error <= limit && b_error <= limit && c_error <= limit))
        fail("wrong result: relative errors a %g, b %g, c %g, limit %g", a_error, b_error, c_error, limit);
    printf("checksum=%.17g\nverified=yes\n", a_value + b_value + c_value);
}

static void print_table(const struct timing *timings, size_t elements, size_t repeat)
{
    printf("Function    Best Rate MB/s  Avg time     Min time     Max time\n");
    for (int kernel = 0; kernel < KERNELS; kernel++) {
        const struct timing *timing = &timings[kernel];
        double megabytes = 1e-6 * (double)(doubles_moved[kernel] * sizeof(double) * elements);
        printf("%-11s %14.1f  %11.6f  %11.6f  %11.6f\n", kernel_names[kernel], megabytes / timing->best,
               timing->sum / (double)(repeat - 1), timing->best, timing->worst);
    }
}

int main(int argc, char **argv)
{
    size_t elements = 20000000, repeat = 10, threads = (size_t)omp_get_max_threads();
    const struct argument table[] = {
        {"--elements", "doubles per array, 3 arrays", &elements, 1, 1000000000000, NULL},
        {"--repeat", "rounds; the first one is not counted", &repeat, 2, 300, NULL},
        {"--threads", "OpenMP threads", &threads, 1, 4096, NULL},
    };
    read_arguments(argc, argv, "STREAM: copy, scale, add, triad (recipe R3).", table, sizeof table / sizeof *table);
    omp_set_num_threads((int)threads);

    const size_t bytes = elements * sizeof(double);
    double *a = malloc(bytes);
    double *b = malloc(bytes);
    double *c = malloc(bytes);
    if (!a || !b || !c)
        fail("cannot allocate 3 arrays of %zu bytes; lower --elements", bytes);
#pragma omp parallel for
    for (size_t i = 0; i < elements; i++) {
        a[i] = 1;
        b[i] = 2;
        c[i] = 0;
    }

    struct timing timings[KERNELS];
    for (int kernel = 0; kernel < KERNELS; kernel++)
        timings[kernel] = (struct timing){DBL_MAX, 0, 0};
    double loop_start = seconds_now();
    for (size_t round = 0; round < repeat; round++)
        for (int kernel = 0; kernel < KERNELS; kernel++) {
            double start = seconds_now();
            run_kernel((enum kernel)kernel, a, b, c, elements);
            double seconds = seconds_now() - start;
            if (round == 0)
                continue;
            timings[kernel].best = fmin(timings[kernel].best, seconds);
            timings[kernel].worst = fmax(timings[kernel].worst, seconds);
            timings[kernel].sum += seconds;
        }
    double loop_seconds = seconds_now() - loop_start;

    printf("elements=%zu\nrepeat=%zu\nthreads=%zu\narray_bytes=%zu\n", elements, repeat, threads, bytes);
    print_table(timings, elements, repeat);
    printf("loop_seconds=%.6f\n", loop_seconds);
    printf("rate_gb_per_s=%.3f\n", 1e-9 * 80 * (double)elements * (double)repeat / loop_seconds);
    verify(a, b, c, elements, repeat);
    free(a);
    free(b);
    free(c);
    return 0;
}
