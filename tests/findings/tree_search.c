/* Looks up random keys in a binary tree of a million nodes, which were allocated in random order. */
#include "finding.h"
struct node { uint64_t key; struct node *child[2]; uint64_t value; };
enum { N = 1 << 20 };
__attribute__((noinline)) static uint64_t look_up(const struct node *at, uint64_t key) {
    while (at != NULL && at->key != key) at = at->child[key > at->key];
    return at == NULL ? 0 : at->value;
}
static void insert(struct node **at, struct node *new) {
    while (*at != NULL) at = &(*at)->child[new->key > (*at)->key];
    *at = new;
}
int main(int argc, char **argv) {
    double limit = limit_of(argc, argv) + 1.5;
    uint64_t state = 88172645463325252u;
    struct node *nodes = huge(N * sizeof *nodes), *root = NULL;
    for (int i = 0; i < N; i++) {
        nodes[i] = (struct node){next_random(&state), {NULL, NULL}, (uint64_t)i};
        insert(&root, &nodes[i]);
    }
    while (seconds() < limit)
        for (int i = 0; i < 10000; i++) keep_word(look_up(root, nodes[next_random(&state) % N].key));
}
