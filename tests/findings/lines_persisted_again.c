/* Flushes each record when it is written, and all of them again at the end of the block. */
#include "flush.h"
enum { N = 64, BLOCKS = 64 };
__attribute__((noinline)) static void write_block(struct line *block, uint64_t value) {
    for (size_t i = 0; i < N; i++) {
        block[i].words[0] = value + i;
        flush(&block[i]);
    }
#ifndef FIXED
    for (size_t i = 0; i < N; i++) flush(&block[i]);
#endif
    fence();
}
int main(int argc, char **argv) {
    double limit = limit_of(argc, argv);
    struct line *all = persistent(N * BLOCKS);
    uint64_t rounds = 0;
    for (; seconds() < limit; rounds++)
        for (size_t block = 0; block < BLOCKS; block++) write_block(&all[block * N], rounds);
    printf("rounds=%lu\n", rounds);
}
