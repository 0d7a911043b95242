/*
 * A chain of dependent loads through all lines of an array, in an order without pattern.
 *
 * Latency-bound where the array is larger than the last-level cache (address translation takes part of it: compare
 * --huge 1), bound by the core's own load latency in L1. One load per step. An array that does not fit into a cache of
 * LRU never hits in it; --level says which level that is.
 */
#include "truth.h"

struct line {
    struct line *next;
    char unused[LINE - sizeof(struct line *)];
};

struct chain {
    struct line *lines;
    size_t steps;
};

static void walk(size_t thread, size_t threads, void *context)
{
    (void)thread, (void)threads;
    const struct chain *chain = context;
    struct line *at = chain->lines;
    /* Eight at a time: a short loop's branch would not matter in time, but its instructions hide the chain. */
    for (size_t step = 0; step < chain->steps; step += 8)
        at = at->next->next->next->next->next->next->next->next;
    if (!at)
        fail("the chain is broken");
}

int main(int argc, char **argv)
{
    size_t bits = 22, repeat = 5, huge = 0, level = DRAM + 1;
    const struct argument table[] = {
        {"--bits", "2^N lines of 64 bytes", &bits, 9, 32, NULL},
        {"--repeat", "times around", &repeat, 1, (size_t)1 << 40, NULL},
        {"--level", "where the array lives: 1, 2, 3; 4 is DRAM", &level, 1, 4, NULL},
        {"--huge", "1: ask for 2 MB pages", &huge, 0, 1, NULL},
    };
    read_arguments(argc, argv, "Pointer chase with a known traffic.", table, sizeof table / sizeof *table);
    const size_t lines = (size_t)1 << bits;
    const uint64_t mask = lines - 1;
    struct line *array = array_of(lines * LINE, huge);
    /* In address order, so that setting up costs one write-back per line; mixed() gives the order of the chain. */
    for (size_t index = 0; index < lines; index++)
        array[index].next = &array[mixed((unmixed(index, (unsigned)bits) + 1) & mask, (unsigned)bits)];

    struct chain chain = {array, lines * repeat};
    struct truth truth = unknown_truth("chase", 1, repeat);
    truth.seconds = run_phase(1, walk, &chain);
    const double steps = (double)chain.steps, bytes = (double)(lines * LINE);
    const bool from_memory = level == DRAM + 1;
    truth.setup_written_bytes = from_memory ? bytes : 0;
    truth.read_bytes = from_memory ? steps * LINE : 0;
    truth.written_bytes = truth.setup_written_bytes;
    truth.loads = steps;
    truth.stores = (double)lines;
    truth.flops = 0;
    for (size_t n = 0; n < LEVELS; n++)
        truth.levels[n] = n + 1 == level;
    print_truth(&truth);
    return 0;
}
