/*
 * A known series of heap calls from two functions, --rounds times (each counts in bytes asked for):
 * alloc_small: malloc 16, 32 ... 1024 (64 calls, 33280 bytes), every second one freed at once, the others at the
 *   end of the round;
 * alloc_large: calloc 1000 x 100; realloc of it to 300000; posix_memalign 64, 4096; aligned_alloc 4096, 8192; all
 *   of it freed.
 */
#include "known.h"

static long mallocs, callocs, reallocs, aligned, frees;
static long long bytes_asked, bytes_live, bytes_peak;

static void count(long *calls, long long asked, long long live_change)
{
    ++*calls;
    bytes_asked += asked;
    bytes_live += live_change;
    bytes_peak = bytes_live > bytes_peak ? bytes_live : bytes_peak;
}

static void *checked(void *block)
{
    if (!block)
        known_impossible("allocate");
    memset(block, 1, 1);
    return block;
}

static void release(void *block, long long bytes)
{
    count(&frees, 0, -bytes);
    free(block);
}

SEPARATE void alloc_small(void *kept[32])
{
    for (int n = 1; n <= 64; n++) {
        void *block = checked(malloc((size_t)n * 16));
        count(&mallocs, n * 16, n * 16);
        if (n % 2)
            release(block, n * 16);
        else
            kept[n / 2 - 1] = block;
    }
}

SEPARATE void alloc_large(void)
{
    char *first = checked(calloc(1000, 100));
    count(&callocs, 100000, 100000);
    first = checked(realloc(first, 300000));
    count(&reallocs, 300000, 300000 - 100000);
    void *second = NULL;
    if (posix_memalign(&second, 64, 4096) != 0)
        known_impossible("allocate");
    count(&aligned, 4096, 4096);
    void *third = checked(aligned_alloc(4096, 8192));
    count(&aligned, 8192, 8192);
    release(first, 300000);
    release(second, 4096);
    release(third, 8192);
}

int main(int argc, char **argv)
{
    long rounds = 100;
    known_options(argc, argv, &(struct known_option){"--rounds", &rounds, 1, 10000000}, 1);
    void *kept[32];
    for (long round = 0; round < rounds; round++) {
        alloc_small(kept);
        alloc_large();
        for (int n = 0; n < 32; n++)
            release(kept[n], (n + 1) * 32);
    }
    printf("malloc_calls=%ld\ncalloc_calls=%ld\nrealloc_calls=%ld\n", mallocs, callocs, reallocs);
    printf("aligned_calls=%ld\nfree_calls=%ld\n", aligned, frees);
    printf("bytes_asked=%lld\nbytes_peak=%lld\nbytes_live_at_end=%lld\n", bytes_asked, bytes_peak, bytes_live);
    known_end();
    return 0;
}
