/*
 * sum += a[index[i]] with random indices: independent loads all over an array, beside a stream of indices.
 *
 * With an array far larger than the second-level TLB reaches, tlb-bound (compare --huge 1); within the caches,
 * latency-bound. Per element two scalar loads (an index of 4 bytes, an element of 8) and one addition.
 * Which loads miss depends on what the cache keeps: simulated.
 */
#include "truth.h"

struct gather {
    const double *array;
    const uint32_t *indices;
    size_t count, repeat;
    double sum[MAX_THREADS][LINE / sizeof(double)];
};

static void gather(size_t thread, size_t threads, void *context)
{
    struct gather *all = context;
    const size_t first = all->count * thread / threads, end = all->count * (thread + 1) / threads;
    const double *array = all->array;
    const uint32_t *indices = all->indices;
    double sum = 0;
    for (size_t round = 0; round < all->repeat; round++)
        for (size_t i = first; i < end; i++)
            sum += array[indices[i]];
    all->sum[thread][0] = sum;
}

int main(int argc, char **argv)
{
    size_t bits = 26, count = 8000000, repeat = 10, threads = 1, huge = 0;
    const struct argument table[] = {
        {"--bits", "2^N doubles in the array", &bits, 16, 32, NULL},
        {"--count", "indices, a multiple of 8", &count, 8, (size_t)1 << 32, NULL},
        {"--repeat", "rounds over the indices", &repeat, 1, 1000000, NULL},
        {"--threads", "threads", &threads, 1, MAX_THREADS, NULL},
        {"--huge", "1: ask for 2 MB pages", &huge, 0, 1, NULL},
    };
    read_arguments(argc, argv, "Random gather.", table, sizeof table / sizeof *table);
    const size_t elements = (size_t)1 << bits;
    double *array = array_of(elements * sizeof *array, huge);
    fill(array, elements, 1.0);
    uint32_t *indices = array_of(count * sizeof *indices, huge);
    for (size_t i = 0; i < count; i++)
        indices[i] = (uint32_t)(mixed(i & 0xffffffff, 32) >> (32 - bits));

    static struct gather context;
    context.array = array, context.indices = indices, context.count = count, context.repeat = repeat;
    struct truth truth = unknown_truth("gather", threads, repeat);
    truth.seconds = run_phase(threads, gather, &context);
    double sum = 0;
    for (size_t thread = 0; thread < threads; thread++)
        sum += context.sum[thread][0];
    const double gathered = (double)count * (double)repeat;
    if (sum != gathered)
        fail("wrong sum: %.17g, it should be %.17g", sum, gathered);
    truth.setup_written_bytes = 8 * (double)elements + 4 * (double)count;
    truth.loads = 2 * gathered;
    truth.stores = (double)elements / VECTOR + (double)count;
    truth.flops = gathered;
    print_truth(&truth);
    return 0;
}
