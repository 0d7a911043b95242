/*
 * One 8-byte load from every `--lines`-th line, then again from the lines beside them, until all were visited.
 *
 * Each load needs a line that was used a whole round ago: 64 bytes from DRAM per load, if the array is several times larger
 * than the last-level cache. From 64 lines on, each load is on a page of its own: tlb-bound. Below, bandwidth-bound.
 * Where a hardware prefetcher fetches neighbours that are evicted unused, the machine moves more than this.
 */
#include "truth.h"

struct strided {
    const double *array;
    size_t total_lines, stride_lines, repeat;
    double sum;
};

static void walk(size_t thread, size_t threads, void *context)
{
    (void)thread, (void)threads;
    struct strided *strided = context;
    const size_t per_line = LINE / sizeof(double), step = strided->stride_lines * per_line;
    const size_t end = strided->total_lines * per_line;
    double sum = 0;
    for (size_t round = 0; round < strided->repeat; round++)
        for (size_t offset = 0; offset < step; offset += per_line)
            for (size_t i = offset; i < end; i += step)
                sum += strided->array[i];
    strided->sum = sum;
}

int main(int argc, char **argv)
{
    size_t megabytes = 256, stride = 64, repeat = 10, huge = 0;
    const struct argument table[] = {
        {"--lines", "stride in lines of 64 bytes, a power of two", &stride, 1, 1 << 14, NULL},
        {"--megabytes", "size of the array (2^20 bytes)", &megabytes, 1, 1 << 20, NULL},
        {"--repeat", "times over the whole array", &repeat, 1, 1000000, NULL},
        {"--huge", "1: ask for 2 MB pages", &huge, 0, 1, NULL},
    };
    read_arguments(argc, argv, "Strided walk with a known traffic.", table, sizeof table / sizeof *table);
    const size_t bytes = megabytes << 20, elements = bytes / sizeof(double), lines = bytes / LINE;
    if (lines % stride != 0)
        fail("%zu lines are no multiple of the stride of %zu", lines, stride);
    double *array = array_of(bytes, huge);
    fill(array, elements, 1.0);

    struct strided context = {array, lines, stride, repeat, 0};
    struct truth truth = unknown_truth("stride", 1, repeat);
    truth.seconds = run_phase(1, walk, &context);
    const double loads = (double)lines * (double)repeat;
    if (context.sum != loads)
        fail("wrong sum: %.17g, it should be %.17g", context.sum, loads);
    truth.setup_written_bytes = (double)bytes;
    truth.read_bytes = loads * LINE;
    truth.written_bytes = truth.setup_written_bytes;
    truth.loads = loads;
    truth.stores = (double)elements / VECTOR;
    truth.flops = loads;
    truth.levels[L1] = truth.levels[L2] = truth.levels[L3] = 0;
    truth.levels[DRAM] = 1;
    print_truth(&truth);
    return 0;
}
