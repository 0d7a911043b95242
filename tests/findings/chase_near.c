/* The same list over 16 KiB: each load waits, but for the first-level cache only. */
#include "finding.h"
struct node { struct node *next; uint64_t pad[7]; };
enum { N = 256 };
static struct node nodes[N];
__attribute__((noinline)) static struct node *walk(struct node *at, int steps) {
    while (steps-- > 0) at = at->next;
    return at;
}
int main(int argc, char **argv) {
    double limit = limit_of(argc, argv);
    for (uint32_t i = 0; i < N; i++) nodes[i * 97 % N].next = &nodes[(i + 1) * 97 % N];
    struct node *at = nodes;
    while (seconds() < limit) keep_word((uint64_t)(at = walk(at, 1 << 20)));
}
