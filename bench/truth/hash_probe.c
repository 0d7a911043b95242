/*
 * Look-ups of random keys in a large hash table: one line per look-up, none depends on the one before.
 *
 * tlb-bound (compare --huge 1). The table is full and perfect: slot s holds the one key that hashes to s, so that a look-up
 * is exactly one probe of 16 bytes, key and value: 2 loads in the same line. What the cache keeps: simulated.
 */
#include "truth.h"

struct slot {
    uint64_t key, value;
};

struct probes {
    const struct slot *table;
    size_t count;
    unsigned bits;
    uint64_t found;
};

static void probe(size_t thread, size_t threads, void *context)
{
    (void)thread, (void)threads;
    struct probes *probes = context;
    const struct slot *table = probes->table;
    const unsigned bits = probes->bits;
    const uint64_t mask = ((uint64_t)1 << bits) - 1;
    uint64_t found = 0, random = 1;
    for (size_t n = 0; n < probes->count; n++) {
        /* Knuth's MMIX generator; its upper bits are good. */
        random = random * 6364136223846793005u + 1442695040888963407u;
        uint64_t key = random >> 32 & mask;
        const struct slot *slot = &table[mixed(key, bits)];
        if (slot->key == key)
            found += slot->value;
    }
    probes->found = found;
}

int main(int argc, char **argv)
{
    size_t bits = 25, repeat = 10, huge = 0;
    const struct argument table[] = {
        {"--bits", "2^N slots of 16 bytes", &bits, 16, 31, NULL},
        {"--repeat", "millions of look-ups", &repeat, 1, 1000000, NULL},
        {"--huge", "1: ask for 2 MB pages", &huge, 0, 1, NULL},
    };
    read_arguments(argc, argv, "Hash table look-ups.", table, sizeof table / sizeof *table);
    const size_t slots = (size_t)1 << bits;
    struct slot *array = array_of(slots * sizeof *array, huge);
    for (size_t n = 0; n < slots; n++)
        array[n] = (struct slot){unmixed(n, (unsigned)bits), 1};

    struct probes context = {array, repeat * 1000000, (unsigned)bits, 0};
    struct truth truth = unknown_truth("hash_probe", 1, repeat);
    truth.seconds = run_phase(1, probe, &context);
    if (context.found != context.count)
        fail("%zu of %zu keys found", (size_t)context.found, context.count);
    truth.setup_written_bytes = 16 * (double)slots;
    truth.loads = 2 * (double)context.count;
    truth.stores = 2 * (double)slots;
    truth.flops = 0;
    print_truth(&truth);
    return 0;
}
