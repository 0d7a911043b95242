/* Grows a binary tree of 4095 nodes from blocks, counts it, and takes it down. */
#include "finding.h"
struct tree { struct tree *left, *right; };
__attribute__((noinline)) static struct tree *grow(int depth) {
    struct tree *tree = malloc(sizeof *tree);
    tree->left = depth > 0 ? grow(depth - 1) : NULL;
    tree->right = depth > 0 ? grow(depth - 1) : NULL;
    return tree;
}
static uint64_t take_down(struct tree *tree) {
    if (tree == NULL) return 0;
    uint64_t count = 1 + take_down(tree->left) + take_down(tree->right);
    free(tree);
    return count;
}
int main(int argc, char **argv) {
    double limit = limit_of(argc, argv);
    while (seconds() < limit) keep_word(take_down(grow(11)));
}
