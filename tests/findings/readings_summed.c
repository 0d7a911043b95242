/* Statistics of sensor readings: sum, extremes and squares, each by a pass of its own over 768 MB, on both cores.
   Each pass does one operation per value on a plain stream, so the memory's bandwidth is all that counts.
   Fixed (-DFIXED: all of them in one pass, block by block, from the cache) a round is more than three times as fast. */
#include "finding.h"

enum { VALUES = 192 << 20, BLOCK = 16384, THREADS = 2 };

typedef void (*pass_function)(const int32_t *values, size_t count, int64_t *result);
struct part { pthread_t thread; const int32_t *values; size_t count; double limit; long rounds; int64_t results[4]; };

#define WIDE __attribute__((optimize("O3"), target("avx2"), noinline))
WIDE static void add(const int32_t *v, size_t n, int64_t *r) {
    int32_t sum = 0;
    for (size_t i = 0; i < n; i++) sum += v[i];
    *r += sum;
}
WIDE static void largest(const int32_t *v, size_t n, int64_t *r) {
    int32_t most = 0;
    for (size_t i = 0; i < n; i++) most = v[i] > most ? v[i] : most;
    *r = most > *r ? most : *r;
}
WIDE static void below(const int32_t *v, size_t n, int64_t *r) {
    int32_t count = 0;
    for (size_t i = 0; i < n; i++) count += v[i] < 500;
    *r += count;
}
WIDE static void bits(const int32_t *v, size_t n, int64_t *r) {
    int32_t set = 0;
    for (size_t i = 0; i < n; i++) set |= v[i];
    *r |= set;
}

static const pass_function passes[] = {add, largest, below, bits};

static void *summarise(void *argument) {
    struct part *part = argument;
#ifdef FIXED
    size_t block = BLOCK;
#else
    size_t block = part->count;
#endif
    while (seconds() < part->limit) {
        for (size_t at = 0; at < part->count; at += block)
            for (int p = 0; p < 4; p++) passes[p](part->values + at, block, &part->results[p]);
        part->rounds++;
    }
    return NULL;
}

int main(int argc, char **argv) {
    double limit = limit_of(argc, argv);
    int32_t *values = huge((size_t)VALUES * sizeof *values);
    for (size_t i = 0; i < VALUES; i++) values[i] = (int32_t)(i * 2654435761u % 1000);
    struct part parts[THREADS] = {0};
    for (int t = 0; t < THREADS; t++) {
        parts[t].values = values + (size_t)t * (VALUES / THREADS);
        parts[t].count = VALUES / THREADS;
        parts[t].limit = limit;
        if (pthread_create(&parts[t].thread, NULL, summarise, &parts[t])) return 2;
    }
    long rounds = 0;
    for (int t = 0; t < THREADS; t++) {
        pthread_join(parts[t].thread, NULL);
        rounds += parts[t].rounds;
    }
    printf("%ld rounds, largest %ld\n", rounds, (long)parts[0].results[1]);
    return 0;
}
