/* Builds a list of 200 nodes block by block, sums it, and frees it again. */
#include "finding.h"
struct node { struct node *next; uint64_t value; };
__attribute__((noinline)) static uint64_t rebuild(int n) {
    struct node *first = NULL;
    uint64_t sum = 0;
    for (int i = 0; i < n; i++) {
        struct node *node = malloc(sizeof *node);
        *node = (struct node){first, (uint64_t)i};
        first = node;
    }
    while (first != NULL) {
        struct node *next = first->next;
        sum += first->value;
        free(first);
        first = next;
    }
    return sum;
}
int main(int argc, char **argv) {
    double limit = limit_of(argc, argv);
    while (seconds() < limit)
        for (int round = 0; round < 100; round++) keep_word(rebuild(200));
}
