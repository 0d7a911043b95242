/* Near-miss of lines_persisted and lines_persisted_again: an entry must be in memory before the head that makes it valid, so both wait
   for their line, and the head is flushed again and again, each time with something new. */
#include "flush.h"
enum { N = 1 << 12 };
__attribute__((noinline)) static void append(struct line *all, size_t at, uint64_t value) {
    struct line *entry = &all[1 + at % (N - 1)];
    entry->words[0] = value;
    flush(entry);
    fence();
    all[0].words[0] = at;
    flush(&all[0]);
    fence();
}
int main(int argc, char **argv) {
    double limit = limit_of(argc, argv);
    struct line *all = persistent(N);
    size_t at = 0;
    while (seconds() < limit)
        for (int i = 0; i < 1000; i++, at++) append(all, at, at * 3);
    printf("rounds=%zu\n", at / 1000);
}
