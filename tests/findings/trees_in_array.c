/* Grows the same tree in an array. */
#include "finding.h"
struct tree { uint32_t left, right; };
static struct tree nodes[4096];
static uint32_t used;
__attribute__((noinline)) static uint32_t grow(int depth) {
    uint32_t own = used++;
    nodes[own].left = depth > 0 ? grow(depth - 1) : 0;
    nodes[own].right = depth > 0 ? grow(depth - 1) : 0;
    return own;
}
static uint64_t count(uint32_t at) {
    return 1 + (nodes[at].left ? count(nodes[at].left) : 0) + (nodes[at].right ? count(nodes[at].right) : 0);
}
int main(int argc, char **argv) {
    double limit = limit_of(argc, argv);
    while (seconds() < limit) {
        used = 0;
        keep_word(count(grow(11)));
    }
}
