/* Independent random probes of a hash table of 256 MiB in huge pages: no rule knows a cure. */
#include "finding.h"
enum { N = 16 << 20 };
struct slot { uint64_t key, value; };
__attribute__((noinline)) static uint64_t probe(const struct slot *table, uint64_t *state, int times) {
    uint64_t sum = 0;
    for (int i = 0; i < times; i++) {
        const struct slot *slot = &table[next_random(state) % N];
        sum += slot->key ^ slot->value;
    }
    return sum;
}
int main(int argc, char **argv) {
    double limit = limit_of(argc, argv);
    uint64_t state = 88172645463325252u;
    struct slot *table = huge((size_t)N * sizeof *table);
    while (seconds() < limit) keep_word(probe(table, &state, 1 << 18));
}
