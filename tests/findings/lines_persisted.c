/* Persists each line of an array by itself; only the whole array is of use. */
#include "flush.h"
enum { N = 1 << 12 };
__attribute__((noinline)) static void fill(struct line *all, uint64_t value) {
    for (size_t i = 0; i < N; i++) {
        all[i].words[0] = value + i;
#ifdef FIXED
        flush(&all[i]);
    }
    fence();
#else
        flush(&all[i]);
        fence();
    }
#endif
}
int main(int argc, char **argv) {
    double limit = limit_of(argc, argv);
    struct line *all = persistent(N);
    uint64_t rounds = 0;
    while (seconds() < limit) fill(all, rounds++);
    printf("rounds=%lu\n", rounds);
}
