/* Adds up messages of 128 bytes in a list whose order has nothing to do with where they lie. */
#include "finding.h"
struct message { uint64_t size; char text[112]; struct message *later; };
enum { N = 1 << 20 };
__attribute__((noinline)) static uint64_t add_sizes(const struct message *first) {
    uint64_t sum = 0;
    for (const struct message *at = first; at != NULL; at = at->later) sum += at->size;
    return sum;
}
int main(int argc, char **argv) {
    struct message *all = huge(N * sizeof *all);
    /* A step that shares no factor with N visits every place once. */
    for (uint64_t i = 0, at = 0; i < N; i++) {
        uint64_t next = (at + 611953) % N;
        all[at].size = i;
        all[at].later = i + 1 < N ? &all[next] : NULL;
        at = next;
    }
    double limit = limit_of(argc, argv) + seconds();
    while (seconds() < limit) keep_word(add_sizes(all));
}
