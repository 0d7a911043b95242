/* Counts the marked ones among accounts of 192 bytes. */
#include "finding.h"
struct account { char name[96]; double balances[11]; uint32_t marked, number; };
enum { N = 1 << 20 };
__attribute__((noinline)) static uint64_t count_marked(const struct account *all) {
    uint64_t count = 0;
    for (size_t i = 0; i < N; i++) count += all[i].marked;
    return count;
}
int main(int argc, char **argv) {
    struct account *all = huge(N * sizeof *all);
    double limit = limit_of(argc, argv) + seconds();
    while (seconds() < limit) keep_word(count_marked(all));
}
