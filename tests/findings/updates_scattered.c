/* Random updates of a table of 1 GiB in small pages. */
#include "finding.h"
enum { WORDS = 128 << 20 };
__attribute__((noinline)) static void update(uint64_t *table, uint64_t *state, int times) {
    for (int i = 0; i < times; i++) table[next_random(state) % WORDS] ^= *state;
}
int main(int argc, char **argv) {
    uint64_t state = 88172645463325252u;
    uint64_t *table = malloc((size_t)WORDS * sizeof *table);
    if (table == NULL) return 2;
    memset(table, 1, (size_t)WORDS * sizeof *table);
    double limit = limit_of(argc, argv) + seconds();
    while (seconds() < limit) update(table, &state, 1 << 18);
}
