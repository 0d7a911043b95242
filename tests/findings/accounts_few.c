/* The same among a hundred accounts. */
#include "finding.h"
struct account { char name[96]; double balances[11]; uint32_t marked, number; };
enum { N = 100 };
__attribute__((noinline)) static uint64_t count_marked(const struct account *all) {
    uint64_t count = 0;
    for (size_t i = 0; i < N; i++) count += all[i].marked;
    return count;
}
int main(int argc, char **argv) {
    struct account *all = huge(N * sizeof *all);
    double limit = limit_of(argc, argv);
    while (seconds() < limit)
        for (int round = 0; round < 1000; round++) keep_word(count_marked(all));
}
