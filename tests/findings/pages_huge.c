/* Independent random loads over 2 GiB in huge pages: few need a page walk. */
#include "finding.h"
__attribute__((noinline)) static uint64_t scatter(const uint64_t *m, uint64_t words, uint64_t *state, int loads) {
    uint64_t sum = 0;
    for (int i = 0; i < loads; i++) sum += m[next_random(state) % words];
    return sum;
}
int main(int argc, char **argv) {
    double limit = limit_of(argc, argv);
    uint64_t words = (uint64_t)1 << 28, state = 88172645463325252u;
    uint64_t *m = huge(words * 8);
    limit += seconds();
    while (seconds() < limit) keep_word(scatter(m, words, &state, 1 << 20));
}
