/* Counts bytes into 256 counters: the input streams slowly, the counters stay in the first-level cache. */
#include "finding.h"
enum { N = 1 << 20 };
static uint32_t counts[256];
__attribute__((noinline)) static void count(const unsigned char *text) {
    for (size_t i = 0; i < N; i++) counts[text[i]]++;
}
int main(int argc, char **argv) {
    double limit = limit_of(argc, argv);
    unsigned char *text = huge(N);
    uint64_t state = 88172645463325252u;
    for (size_t i = 0; i < N; i++) text[i] = (unsigned char)next_random(&state);
    while (seconds() < limit) count(text);
    keep_word(counts[7]);
}
