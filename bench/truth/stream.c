/*
 * STREAM's kernels, with ordinary and with non-temporal stores, one kernel per run.
 *
 * Bandwidth-bound. Per vector of 4 elements: copy and scale 1 load, add and triad 2; 1 store. Half of the loads find the
 * line that the load before them has fetched.
 */
#include "truth.h"

struct arrays {
    double *to;
    const double *one, *two;
    size_t elements, repeat;
};

/* A barrier for the compiler only: a repetition must not be merged with the next one. */
#define KERNEL(name, store, expression)                                                                                \
    static void name(size_t thread, size_t threads, void *context)                                                     \
    {                                                                                                                  \
        const struct arrays arrays = *(struct arrays *)context;                                                        \
        const size_t vectors = arrays.elements / VECTOR;                                                               \
        const size_t first = vectors * thread / threads * VECTOR, end = vectors * (thread + 1) / threads * VECTOR;     \
        const double *one = arrays.one, *two = arrays.two;                                                             \
        const __m256d scalar = _mm256_set1_pd(3.0);                                                                    \
        (void)two, (void)scalar;                                                                                       \
        for (size_t round = 0; round < arrays.repeat; round++) {                                                       \
            for (size_t i = first; i < end; i += VECTOR)                                                               \
                store(arrays.to + i, expression);                                                                      \
            __asm__ volatile("" : : : "memory");                                                                       \
        }                                                                                                              \
    }

#define ONE _mm256_load_pd(one + i)
#define TWO _mm256_load_pd(two + i)
#define BOTH(name, expression)                                                                                         \
    KERNEL(name, _mm256_store_pd, expression)                                                                          \
    KERNEL(name##_nt, _mm256_stream_pd, expression)

BOTH(copy, ONE)
BOTH(scale, _mm256_mul_pd(scalar, ONE))
BOTH(add, _mm256_add_pd(ONE, TWO))
BOTH(triad, _mm256_fmadd_pd(scalar, TWO, ONE))

static const struct {
    const char *name;
    void (*work)(size_t, size_t, void *);
    double sources, flops_per_element;
    bool non_temporal;
} kernels[] = {
    {"copy", copy, 1, 0, false},     {"copy_nt", copy_nt, 1, 0, true},   {"scale", scale, 1, 1, false},
    {"scale_nt", scale_nt, 1, 1, true}, {"add", add, 2, 1, false},       {"add_nt", add_nt, 2, 1, true},
    {"triad", triad, 2, 2, false},   {"triad_nt", triad_nt, 2, 2, true},
};

int main(int argc, char **argv)
{
    size_t elements = 16000000, repeat = 60, threads = 1, huge = 0;
    const char *kernel = "triad";
    const struct argument table[] = {
        {"--kernel", "copy, scale, add or triad, or with _nt", NULL, 0, 0, &kernel},
        {"--elements", "doubles per array, a multiple of 8", &elements, 8, (size_t)1 << 40, NULL},
        {"--repeat", "rounds", &repeat, 1, 1000000, NULL},
        {"--threads", "threads", &threads, 1, MAX_THREADS, NULL},
        {"--huge", "1: ask for 2 MB pages", &huge, 0, 1, NULL},
    };
    read_arguments(argc, argv, "STREAM with a known traffic.", table, sizeof table / sizeof *table);
    elements -= elements % 8;
    for (size_t n = 0; n < sizeof kernels / sizeof *kernels; n++) {
        if (strcmp(kernels[n].name, kernel) != 0)
            continue;
        const double sources = kernels[n].sources, bytes = 8 * (double)elements, rounds = (double)repeat;
        double *arrays[3];
        for (int which = 0; which <= (int)sources; which++) {
            arrays[which] = array_of(elements * sizeof(double), huge);
            fill(arrays[which], elements, 1 + which);
        }
        struct arrays context = {arrays[0], arrays[1], sources > 1 ? arrays[2] : NULL, elements, repeat};
        struct truth truth = unknown_truth(kernel, threads, repeat);
        truth.seconds = run_phase(threads, kernels[n].work, &context);
        truth.setup_written_bytes = bytes * (sources + 1);
        truth.read_bytes = bytes * rounds * (sources + (kernels[n].non_temporal ? 0 : 1));
        truth.written_bytes = bytes * rounds + truth.setup_written_bytes;
        truth.loads = (double)elements / VECTOR * rounds * sources;
        truth.stores = (double)elements / VECTOR * (rounds + sources + 1);
        truth.flops = (double)elements * rounds * kernels[n].flops_per_element;
        truth.levels[L1] = truth.levels[DRAM] = 0.5;
        truth.levels[L2] = truth.levels[L3] = 0;
        print_truth(&truth);
        return 0;
    }
    fail("no such kernel: %s", kernel);
}
