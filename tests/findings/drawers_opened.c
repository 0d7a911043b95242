/* Reads one line in each of many pages at random: the lines stay in the cache, the translations of their pages do not. */
#include "finding.h"
enum { DRAWERS = 16 << 10, APART = 32 << 10 };
static size_t place_of(size_t drawer) { return drawer * APART + drawer * 37 % 64 * 64; }
__attribute__((noinline)) static uint64_t open_drawers(const char *cabinet, uint64_t *random) {
    uint64_t sum = 0;
    for (int i = 0; i < 1 << 16; i++) sum += *(const uint64_t *)(cabinet + place_of(next_random(random) % DRAWERS));
    return sum;
}
int main(int argc, char **argv) {
    double limit = limit_of(argc, argv);
    size_t bytes = (size_t)DRAWERS * APART;
    char *cabinet = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (cabinet == MAP_FAILED) return 2;
    madvise(cabinet, bytes, MADV_NOHUGEPAGE);
    for (size_t i = 0; i < DRAWERS; i++) *(uint64_t *)(cabinet + place_of(i)) = i;
    uint64_t random = 88172645463325252u;
    while (seconds() < limit) keep_word(open_drawers(cabinet, &random));
}
