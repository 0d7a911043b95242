/* Deduplication by two threads: each takes every other chunk of 16 KB, hashes it, and puts the digest, 8 bytes, into
   one array beside the other's. The lines are shared, but written once in some microseconds. ALIKE gives each thread
   an array of its own: 1.00 times the speed. */
#include "finding.h"

enum { Chunks = 32, Size = 16 << 10 };

static uint8_t data[Chunks][Size];
#ifdef ALIKE
static _Alignas(128) uint64_t digests[2][Chunks / 2];
#define DIGEST(t, c) digests[t][(c) / 2]
#else
static _Alignas(128) uint64_t digests[Chunks];
#define DIGEST(t, c) digests[c]
#endif
static double until;

static uint64_t digest_of(const uint8_t *chunk, uint64_t seed) {
    uint64_t hash = seed ^ Size;
    for (size_t i = 0; i < Size; i += 8) {
        uint64_t word;
        memcpy(&word, chunk + i, 8);
        hash = (hash ^ word) * 0x9ddfea08eb382d69u;
        hash ^= hash >> 47;
    }
    return hash;
}

static void *deduplicate(void *which) {
    long t = (long)(intptr_t)which, rounds = 0;
    for (; seconds() < until; rounds++)
        for (int c = (int)t; c < Chunks; c += 2) DIGEST(t, c) += digest_of(data[c], (uint64_t)rounds);
    return (void *)rounds;
}

int main(int argc, char **argv) {
    until = limit_of(argc, argv);
    uint64_t random = 16;
    for (int c = 0; c < Chunks; c++)
        for (int i = 0; i < Size; i++) data[c][i] = (uint8_t)next_random(&random);
    pthread_t other;
    void *others;
    pthread_create(&other, NULL, deduplicate, (void *)1);
    long own = (long)deduplicate(NULL);
    pthread_join(other, &others);
    keep_word(DIGEST(1, 1));
    printf("%.2f MB/s\n", (double)(own + (long)others) * (Chunks / 2) * Size / 1e6 / until);
}
