/* Astronomy: exposures of 16 million pixels are added up, a half of the picture per thread, in four bytes per pixel:
   each exposure reads 2 bytes per pixel and reads and writes 4 more, for one addition. Cause: bandwidth. FIXED adds
   four exposures per pass, for which 0.4 of the bytes move. Measured: 1.4 to 2.4 times the speed (median 1.75 per
   CPU time); two threads are 1.1 times as fast as one. */
#include "finding.h"

enum { Width = 4096, Rows = 4096, Exposures = 4 };

static uint16_t *exposures[Exposures];
static uint32_t *stack;
static double until;

struct half {
    pthread_t thread;
    size_t first;
    double added;
};

static void add_row(uint32_t *restrict to, const uint16_t *restrict from) {
    for (int x = 0; x < Width; x++) to[x] += from[x];
}

static void add_four_rows(uint32_t *restrict to, const uint16_t *a, const uint16_t *b,
                          const uint16_t *c, const uint16_t *d) {
    for (int x = 0; x < Width; x++) to[x] += (uint32_t)a[x] + b[x] + c[x] + d[x];
}

static void *stack_half(void *argument) {
    struct half *half = argument;
    size_t end = half->first + (size_t)Rows / 2 * Width;
    while (seconds() < until) {
#ifdef FIXED
        (void)add_row;
        for (int e = 0; e < Exposures; e += 4)
            for (size_t at = half->first; at < end; at += Width)
                add_four_rows(stack + at, exposures[e] + at, exposures[e + 1] + at,
                              exposures[e + 2] + at, exposures[e + 3] + at);
#else
        (void)add_four_rows;
        for (int e = 0; e < Exposures; e++)
            for (size_t at = half->first; at < end; at += Width) add_row(stack + at, exposures[e] + at);
#endif
        half->added += Exposures * (double)Width * Rows / 2;
    }
    return NULL;
}

int main(int argc, char **argv) {
    until = limit_of(argc, argv);
    size_t pixels = (size_t)Width * Rows;
    stack = (uint32_t *)huge(pixels * sizeof *stack + 8192) + 1040;
    uint64_t random = 11;
    for (int e = 0; e < Exposures; e++) {
        exposures[e] = (uint16_t *)huge(pixels * sizeof(uint16_t) + 8192) + 160 * e;
        for (size_t i = 0; i < pixels; i += 16) exposures[e][i] = (uint16_t)next_random(&random);
    }
    struct half halves[2] = {{.first = 0}, {.first = pixels / 2}};
    double begun = seconds();
    for (int h = 0; h < 2; h++) pthread_create(&halves[h].thread, NULL, stack_half, &halves[h]);
    for (int h = 0; h < 2; h++) pthread_join(halves[h].thread, NULL);
    keep_word(stack[99]);
    printf("%.1f million pixels/s\n", (halves[0].added + halves[1].added) / 1e6 / (seconds() - begun));
}
