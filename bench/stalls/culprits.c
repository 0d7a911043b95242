/* Programs with one known culprit each: what the core waits for, and how much of it, by construction.
   Usage: culprits KIND CPU-SECONDS. Objects are global arrays, so that their names are in the result.
   It prints `object=NAME share=S` for each object: S of the memory waits by construction, from loops of one kind that differ only
   in their object, timed in turns. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#define WORDS (1u << 23) /* 64 MiB each: beyond the caches */
#define MASK (WORDS - 1)
typedef uint64_t word;
word first[WORDS], second[WORDS];
struct node { struct node *next; word key, pad[6]; };
#define NODES (1u << 20)
struct node chain[NODES];
struct node *buckets[1u << 20];
struct node entries[NODES];
static volatile word sink;

/* CPU time: the programs of others do not count. */
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}
/* xorshift64, Marsaglia 2003 */
#define DRAW(x) (x ^= x << 13, x ^= x >> 7, x ^= x << 17)
#define TURNS 200000u

__attribute__((noinline)) word load(const word *a, word x) {
    word sum = 0;
    for (unsigned i = 0; i < TURNS; i++) { DRAW(x); sum ^= a[(x ^ sum) & MASK]; }
    return sum;
}
__attribute__((noinline)) word load_op(const word *a, word x) {
    word sum = 0;
    for (unsigned i = 0; i < TURNS; i++) { DRAW(x); sum += a[(x + (sum & 1)) & MASK]; }
    return sum;
}
__attribute__((noinline)) word floating(const word *a, word x) {
    const double *d = (const double *)a;
    double sum = 1;
    for (unsigned i = 0; i < TURNS; i++) { DRAW(x); sum = sum * d[x & MASK] + 1; }
    return (word)(sum != 0);
}
__attribute__((noinline)) word strided(const word *a, word x) {
    word sum = 0;
    for (unsigned i = 0, at = x & MASK; i < TURNS; i++, at = (at + 4099) & MASK) sum += a[at];
    return sum;
}
__attribute__((noinline)) word branch(const word *a, word x) {
    word sum = 0;
    for (unsigned i = 0; i < TURNS; i++) { DRAW(x); if (a[x & MASK] > x) sum += 3; }
    return sum;
}
__attribute__((noinline)) word store(word *a, word x) {
    for (unsigned i = 0; i < TURNS; i++) { DRAW(x); a[x & MASK] = i; }
    return x;
}
__attribute__((noinline)) word update(word *a, word x) {
    for (unsigned i = 0; i < TURNS; i++) { DRAW(x); a[x & MASK] += i; }
    return x;
}
__attribute__((noinline)) word atomic(word *a, word x) {
    for (unsigned i = 0; i < TURNS; i++) { DRAW(x); __atomic_fetch_add(&a[x & MASK], 1, __ATOMIC_SEQ_CST); }
    return x;
}
__attribute__((noinline)) word search(const word *a, word x) {
    word sum = 0;
    for (unsigned i = 0; i < TURNS / 8; i++) {
        DRAW(x);
        unsigned low = 0, high = WORDS;
        word key = x & MASK;
        while (low < high) { unsigned middle = (low + high) / 2; if (a[middle] < key) low = middle + 1; else high = middle; }
        sum += low;
    }
    return sum;
}
__attribute__((noinline)) word chase(const word *unused, word x) {
    (void)unused;
    const struct node *at = &chain[x & (NODES - 1)];
    for (unsigned i = 0; i < TURNS; i++) at = at->next;
    return at->key;
}
__attribute__((noinline)) word hash(const word *unused, word x) {
    (void)unused;
    word found = 0;
    for (unsigned i = 0; i < TURNS; i++) {
        DRAW(x);
        for (const struct node *at = buckets[x & (NODES - 1)]; at; at = at->next) if (at->key == x) { found++; break; }
    }
    return found;
}
__attribute__((noinline)) word gather(const word *a, word x) {
#if defined(__AVX2__)
    __m256i sum = _mm256_setzero_si256();
    for (unsigned i = 0; i < TURNS; i++) {
        DRAW(x);
        __m256i at = _mm256_set_epi64x(x & MASK, x >> 9 & MASK, x >> 18 & MASK, x >> 27 & MASK);
        sum = _mm256_add_epi64(sum, _mm256_i64gather_epi64((const long long *)a, at, 8));
    }
    return (word)_mm256_extract_epi64(sum, 0);
#else
    return load(a, x);
#endif
}
__attribute__((noinline)) word vector(const word *a, word x) {
    typedef word four __attribute__((vector_size(32), aligned(8)));
    four sum = {0};
    for (unsigned i = 0; i < TURNS; i++) { DRAW(x); sum += *(const four *)&a[x & (MASK >> 2 << 2)]; }
    return sum[0] + sum[3];
}
/* Counters of two threads in one line. */
static struct { _Alignas(64) word of[8]; } line;
word *counters = line.of;
__attribute__((noinline)) static void *count(void *which) {
    for (unsigned i = 0; i < 400 * TURNS; i++) __atomic_fetch_add(&line.of[(intptr_t)which], 1, __ATOMIC_RELAXED);
    return NULL;
}

static const struct { const char *name; word (*loop)(word *, word); int arrays; const char *object; } KINDS[] = {
    {"load", (word(*)(word *, word))load, 1, "first"}, {"load-op", (word(*)(word *, word))load_op, 1, "first"},
    {"floating", (word(*)(word *, word))floating, 1, "first"}, {"strided", (word(*)(word *, word))strided, 1, "first"},
    {"branch", (word(*)(word *, word))branch, 1, "first"}, {"store", store, 1, "first"}, {"update", update, 1, "first"},
    {"atomic", atomic, 1, "first"}, {"search", (word(*)(word *, word))search, 1, "first"},
    {"chase", (word(*)(word *, word))chase, 0, "chain"}, {"hash", (word(*)(word *, word))hash, 0, "buckets,entries"},
    {"gather", (word(*)(word *, word))gather, 1, "first"}, {"vector", (word(*)(word *, word))vector, 1, "first"},
    {"two-load", (word(*)(word *, word))load, 2, 0}, {"two-update", update, 2, 0}, {"two-floating", (word(*)(word *, word))floating, 2, 0},
};

int main(int count_, char **arguments) {
    if (count_ < 3) return 2;
    const char *kind = arguments[1];
    double seconds = atof(arguments[2]);
    if (!strcmp(kind, "false-sharing")) {
        pthread_t thread;
        pthread_create(&thread, NULL, count, (void *)0);
        count((void *)1);
        pthread_join(thread, NULL);
        puts("object=line share=1");
        return 0;
    }
    for (unsigned k = 0; k < sizeof KINDS / sizeof *KINDS; k++) {
        if (strcmp(kind, KINDS[k].name)) continue;
        word x = 88172645463325252u;
        for (unsigned i = 0; i < WORDS; i++) first[i] = second[i] = !strcmp(kind, "search") ? i : 0x3ff0000000000000u + DRAW(x) % 1000;
        if (KINDS[k].arrays == 0) {
            unsigned at = 0; /* a full cycle: Hull & Dobell 1962 */
            for (unsigned i = 0; i < NODES; i++) {
                unsigned next = (at * 1664525u + 1013904223u) & (NODES - 1);
                chain[at].next = &chain[next];
                at = next;
                entries[i].key = DRAW(x);
            }
            for (unsigned i = 0; i < NODES; i++) {
                struct node *entry = &entries[(i * 1664525u + 1013904223u) & (NODES - 1)];
                struct node **bucket = &buckets[entry->key & (NODES - 1)];
                entry->next = *bucket;
                *bucket = entry;
            }
        }
        double end = now() + seconds, in[2] = {0, 0};
        unsigned turn = 0;
        while (now() < end) {
            /* Of four turns one is of the second array. */
            int other = KINDS[k].arrays == 2 && turn++ % 4 == 0;
            double start = now();
            x ^= KINDS[k].loop(other ? second : first, x | 1);
            in[other] += now() - start;
            DRAW(x);
        }
        sink = x;
        if (KINDS[k].arrays == 2) {
            printf("object=first share=%.4f\nobject=second share=%.4f\n", in[0] / (in[0] + in[1]), in[1] / (in[0] + in[1]));
        } else {
            printf("object=%s share=1\n", KINDS[k].object);
        }
        return 0;
    }
    return 2;
}
