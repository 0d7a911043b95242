/* A list in random order over 64 MiB: each load waits for the one before. */
#include "finding.h"
struct node { struct node *next; uint64_t pad[7]; };
enum { N = 1 << 20 };
__attribute__((noinline)) static struct node *walk(struct node *at, int steps) {
    while (steps-- > 0) at = at->next;
    return at;
}
int main(int argc, char **argv) {
    double limit = limit_of(argc, argv);
    struct node *nodes = huge(N * sizeof *nodes);
    uint32_t *order = malloc(N * sizeof *order);
    uint64_t state = 88172645463325252u;
    for (uint32_t i = 0; i < N; i++) order[i] = i;
    for (uint32_t i = N - 1; i > 0; i--) {
        uint32_t j = (uint32_t)(next_random(&state) % (i + 1)), old = order[i];
        order[i] = order[j], order[j] = old;
    }
    for (uint32_t i = 0; i < N; i++) nodes[order[i]].next = &nodes[order[(i + 1) % N]];
    struct node *at = nodes;
    while (seconds() < limit) keep_word((uint64_t)(at = walk(at, 1 << 18)));
}
