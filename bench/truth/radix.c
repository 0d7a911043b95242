/*
 * One pass of a radix sort over 32-bit keys: a histogram of 8 bits, then scattering into 256 growing buckets.
 *
 * Core-bound by its chains through the 256 counters, with a good part of the bandwidth. Keys are read twice (4 bytes each
 * time), and each line of the output is read because stores allocate, and written once: 16 bytes per key.
 * Per key: 2 loads and a store for the histogram; 2 loads and 2 stores for the scattering.
 */
#include "truth.h"

enum { BUCKETS = 256 };

struct pass {
    const uint32_t *from;
    uint32_t *to;
    size_t keys, repeat;
};

static void radix_pass(size_t thread, size_t threads, void *context)
{
    (void)thread, (void)threads;
    const struct pass pass = *(struct pass *)context;
    /* Static: a place that only this function knows is not traced. */
    static size_t counts[BUCKETS], place[BUCKETS];
    for (size_t round = 0; round < pass.repeat; round++) {
        for (size_t bucket = 0; bucket < BUCKETS; bucket++)
            counts[bucket] = 0;
        for (size_t i = 0; i < pass.keys; i++)
            counts[pass.from[i] & (BUCKETS - 1)]++;
        size_t sum = 0;
        for (size_t bucket = 0; bucket < BUCKETS; bucket++) {
            place[bucket] = sum;
            sum += counts[bucket];
        }
        for (size_t i = 0; i < pass.keys; i++) {
            const uint32_t key = pass.from[i];
            pass.to[place[key & (BUCKETS - 1)]++] = key;
        }
    }
}

int main(int argc, char **argv)
{
    size_t keys = 32000000, repeat = 20, huge = 0;
    const struct argument table[] = {
        {"--keys", "keys of 4 bytes", &keys, 1024, (size_t)1 << 32, NULL},
        {"--repeat", "passes, all of the same digit", &repeat, 1, 1000000, NULL},
        {"--huge", "1: ask for 2 MB pages", &huge, 0, 1, NULL},
    };
    read_arguments(argc, argv, "A radix sort's pass with a known traffic.", table, sizeof table / sizeof *table);
    uint32_t *from = array_of(4 * keys, huge), *to = array_of(4 * keys, huge);
    for (size_t i = 0; i < keys; i++)
        from[i] = (uint32_t)mixed(i, 32);

    struct pass pass = {from, to, keys, repeat};
    struct truth truth = unknown_truth("radix", 1, repeat);
    truth.seconds = run_phase(1, radix_pass, &pass);
    for (size_t i = 1; i < keys; i += keys / 1000)
        if ((to[i - 1] & (BUCKETS - 1)) > (to[i] & (BUCKETS - 1)))
            fail("place %zu is out of order", i);
    const double count = (double)keys, rounds = (double)repeat;
    truth.setup_written_bytes = 4 * count;
    /* The output's pages are zeroed in its first round: nothing is read for them then. */
    truth.read_bytes = 8 * count * rounds + 4 * count * (rounds - 1);
    truth.written_bytes = 4 * count * rounds + truth.setup_written_bytes;
    truth.loads = 4 * count * rounds;
    truth.stores = 3 * count * rounds + count;
    truth.flops = 0;
    print_truth(&truth);
    return 0;
}
