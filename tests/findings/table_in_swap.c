/* Works on 96 MiB again and again; with less memory than that, most pages come back from swap each time. */
#include "finding.h"
enum { WORDS = (96 << 20) / 8 };
__attribute__((noinline)) static double work(double *table) {
    double x = 1.0;
    for (size_t at = 0; at < WORDS; at++) table[at] = x = x * 0.5 + table[at] * 0.25 + 1.0;
    return x;
}
int main(int argc, char **argv) {
    double limit = limit_of(argc, argv);
    double *table = mmap(NULL, WORDS * 8, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (table == MAP_FAILED) return 2;
    madvise(table, WORDS * 8, MADV_NOHUGEPAGE);
    do keep(work(table));
    while (seconds() < limit);
}
