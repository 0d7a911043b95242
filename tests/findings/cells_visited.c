/* Steps at random through 256 MB: what the walk needs lies in a structure and is loaded again at each step, for each visit is
   marked by a byte. But it waits for memory, and these loads cost nothing beside that. */
#include "finding.h"

enum { CELLS = 256 << 20 };

struct walk { uint8_t *marks; uint64_t mask, factor, at, visits; };

__attribute__((noinline)) static void visit(struct walk *walk, int steps) {
    for (int i = 0; i < steps; i++) {
        walk->at = walk->at * walk->factor + 12345 + walk->marks[walk->at & walk->mask];
        walk->marks[walk->at & walk->mask] |= 1;
        walk->visits++;
    }
}

int main(int argc, char **argv) {
    double limit = limit_of(argc, argv);
    struct walk walk = {huge(CELLS), CELLS - 1, 6364136223846793005u, 1, 0};
    for (int i = 0; i < 4096; i++) walk.marks[i * 65536 + 77] = 2;
    while (seconds() < limit) visit(&walk, 1 << 16);
    keep_word(walk.visits + walk.at);
}
