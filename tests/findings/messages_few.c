/* The same list of a hundred messages. */
#include "finding.h"
struct message { uint64_t size; char text[112]; struct message *later; };
enum { N = 100 };
__attribute__((noinline)) static uint64_t add_sizes(const struct message *first) {
    uint64_t sum = 0;
    for (const struct message *at = first; at != NULL; at = at->later) sum += at->size;
    return sum;
}
int main(int argc, char **argv) {
    double limit = limit_of(argc, argv);
    struct message *all = huge(N * sizeof *all);
    for (int i = 0; i < N; i++) all[i * 7 % N] = (struct message){1, "", i + 1 < N ? &all[(i + 1) * 7 % N] : NULL};
    while (seconds() < limit)
        for (int round = 0; round < 1000; round++) keep_word(add_sizes(all));
}
