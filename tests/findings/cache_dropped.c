/* Gives the pages of its cache of 16 MiB back after each use. */
#include "finding.h"
enum { BYTES = 16 << 20 };
__attribute__((noinline)) static void use(unsigned char *cache, unsigned char with) { memset(cache, with, BYTES); }
int main(int argc, char **argv) {
    double limit = limit_of(argc, argv);
    unsigned char *cache = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (cache == MAP_FAILED) return 2;
    for (unsigned char with = 0; seconds() < limit; with++) {
        use(cache, with);
        madvise(cache, BYTES, MADV_DONTNEED);
    }
}
