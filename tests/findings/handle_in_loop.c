/* A handle becomes a pointer by three loads of the same address for every element, as the macros of some libraries do. */
#include "finding.h"
struct pool { uint64_t id; char *base; };
struct handle { uint64_t id, offset; };
static __thread struct pool *cached;
static int invalid;
static inline void *direct(struct handle h) {
    if (__builtin_expect(*(volatile int *)&invalid, 0) || *(volatile uint64_t *)&cached->id != h.id) abort();
    return *(char *volatile *)&cached->base + h.offset;
}
enum { N = 2048 };
__attribute__((noinline)) static void triad(struct handle a, struct handle b, struct handle c) {
    for (size_t i = 0; i < N; i++)
        ((int *)direct(c))[i] = 3 * ((int *)direct(a))[i] + ((int *)direct(b))[i];
}
int main(int argc, char **argv) {
    double limit = limit_of(argc, argv);
    cached = malloc(sizeof *cached);
    *cached = (struct pool){7, huge(3 * N * sizeof(int))};
    struct handle a = {7, 0}, b = {7, N * sizeof(int)}, c = {7, 2 * N * sizeof(int)};
    while (seconds() < limit)
        for (int round = 0; round < 1000; round++) triad(a, b, c);
}
