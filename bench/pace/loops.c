// Loops that count themselves: `loops KERNEL SECONDS [THREADS]` runs one for so long and prints how many iterations of the
// source all threads did, and in how much CPU time.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define KERNEL __attribute__((noinline)) static long
// A run of a loop takes several milliseconds, so that samples fall into the same one.
enum { N = 1 << 23, SMALL = 1 << 12, ROWS = 2048, TIMES = 1 << 12 };

struct particle { double x, y, z, mass; int64_t more[12]; };
struct data {
    double *a, *b, *c, sum;
    int32_t *index, *counts;
    struct particle *particles;
    unsigned char *bytes;
    int64_t *sorted, *next;
};

static double seconds(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec + now.tv_nsec * 1e-9;
}

KERNEL scale(struct data *d) { double *a = d->a; for (long i = 0; i < N; i++) a[i] *= 1.0000001; return N; }
KERNEL dot(struct data *d) { double *a = d->a, *b = d->b, s = 0; for (long i = 0; i < N; i++) s += a[i] * b[i]; d->sum += s; return N; }
KERNEL triad(struct data *d) { double *a = d->a, *b = d->b, *c = d->c; for (int i = 0; i < N; i++) a[i] = b[i] + 3.0 * c[i]; return N; }
KERNEL cached(struct data *d)
{
    double *a = d->a, *b = d->b;
    for (int t = 0; t < TIMES; t++)
        for (int i = 0; i < SMALL; i++) a[i] = a[i] * 0.5 + b[i];
    return TIMES;
}
KERNEL histogram(struct data *d) { int32_t *index = d->index, *counts = d->counts; for (int i = 0; i < N; i++) counts[index[i]]++; return N; }
KERNEL gather(struct data *d) { double *a = d->a, s = 0; int32_t *index = d->index; for (long i = 0; i < N; i++) s += a[index[i]]; d->sum += s; return N; }
KERNEL field(struct data *d) { struct particle *p = d->particles; double s = 0; for (int i = 0; i < N / 16; i++) s += p[i].mass; d->sum += s; return N / 16; }
KERNEL backwards(struct data *d) { double *a = d->a, *b = d->b; for (long i = N - 1; i >= 0; i--) a[i] = b[i] + 1.0; return N; }
KERNEL pointers(struct data *d) { double *a = d->a, *end = a + N, m = 0; while (a != end) { if (*a > m) m = *a; a++; } d->sum += m; return N; }
KERNEL bytes(struct data *d) { unsigned char *s = d->bytes; long n = 0; for (long i = 0; i < 4L * N; i++) n += s[i] == 'x'; d->sum += n; return 4L * N; }
KERNEL stencil(struct data *d) { double *a = d->a, *b = d->b; for (long i = 1; i < N - 1; i++) a[i] = (b[i - 1] + b[i] + b[i + 1]) * 0.33; return N - 2; }
KERNEL nest(struct data *d)
{
    double *a = d->a, *b = d->b, *c = d->c;
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < ROWS; j++) {
            double s = 0;
            for (int k = 0; k < 96; k++) s += a[i * 96 + k] * b[j * 96 + k];
            c[i * ROWS + j] = s;
        }
    return (long)ROWS * ROWS;
}
KERNEL columns(struct data *d) { double *a = d->a, s = 0; for (int j = 0; j < 1024; j++) for (int i = 0; i < 8192; i++) s += a[i * 1024 + j]; d->sum += s; return 1024; }
KERNEL chase(struct data *d) { int64_t at = 0, *next = d->next; for (long i = 0; i < N / 4; i++) at = next[at]; d->sum += at; return N / 4; }
KERNEL search(struct data *d)
{
    int64_t *sorted = d->sorted, found = 0;
    for (long i = 0; i < N / 8; i++) {
        int64_t key = d->index[i] * 3L, low = 0, high = N;
        while (low < high) { int64_t middle = (low + high) / 2; if (sorted[middle] < key) low = middle + 1; else high = middle; }
        found += low;
    }
    d->sum += found;
    return N / 8;
}

static const struct { const char *name; long (*run)(struct data *); } kernels[] = {
    {"scale", scale}, {"dot", dot}, {"triad", triad}, {"cached", cached}, {"histogram", histogram}, {"gather", gather},
    {"field", field}, {"backwards", backwards}, {"pointers", pointers}, {"bytes", bytes}, {"stencil", stencil},
    {"nest", nest}, {"columns", columns}, {"chase", chase}, {"search", search},
};
static long (*kernel)(struct data *);
static double duration;
struct result { double iterations, cpu; };

static void *thread(void *argument)
{
    struct result *result = argument;
    struct data d = {0};
    d.a = malloc(N * 8); d.b = malloc(N * 8); d.c = malloc(N * 8);
    d.index = malloc(N * 4); d.counts = calloc(N, 4); d.particles = calloc(N / 16, sizeof *d.particles);
    d.bytes = malloc(4L * N); d.sorted = malloc(N * 8); d.next = malloc(N * 8);
    uint64_t random = 88172645463325252ull;
    for (long i = 0; i < N; i++) {
        random ^= random << 13; random ^= random >> 7; random ^= random << 17;
        d.a[i] = d.b[i] = d.c[i] = i * 1e-6;
        d.index[i] = random % N;
        d.sorted[i] = i * 3;
        d.next[i] = i;
    }
    memset(d.bytes, 'x', 4L * N);
    for (long i = N - 1; i > 0; i--) {
        random ^= random << 13; random ^= random >> 7; random ^= random << 17;
        long j = random % i;
        int64_t kept = d.next[i]; d.next[i] = d.next[j]; d.next[j] = kept;
    }
    double begin = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_THREAD_CPUTIME_ID);
    while (seconds(CLOCK_MONOTONIC) - begin < duration)
        for (int i = 0; i < 4; i++) result->iterations += kernel(&d);
    result->cpu = seconds(CLOCK_THREAD_CPUTIME_ID) - cpu;
    if (d.sum == 0.12345) puts("");
    return NULL;
}

int main(int argc, char **argv)
{
    for (size_t i = 0; argc > 2 && i < sizeof kernels / sizeof *kernels; i++)
        if (!strcmp(kernels[i].name, argv[1])) kernel = kernels[i].run;
    int threads = argc > 3 ? atoi(argv[3]) : 1;
    if (!kernel || threads < 1 || threads > 64) return 2;
    duration = atof(argv[2]);
    pthread_t all[64];
    struct result results[64] = {{0}};
    for (int i = 0; i < threads; i++) pthread_create(&all[i], NULL, thread, &results[i]);
    double iterations = 0, cpu = 0;
    for (int i = 0; i < threads; i++) { pthread_join(all[i], NULL); iterations += results[i].iterations; cpu += results[i].cpu; }
    printf("iterations=%.0f\ncpu=%.9f\n", iterations, cpu);
}
