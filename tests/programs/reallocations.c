/*
 * Blocks that grow, shrink, move and are given back by realloc and reallocarray; what is allocated is known.
 */
#include "known.h"

enum { ROUNDS = 100, STEPS = 10 };

SEPARATE static char *grow(char *block, size_t bytes)
{
    char *grown = realloc(block, bytes);
    if (grown)
        grown[bytes - 1] = 1;
    return grown;
}

int main(int argc, char **argv)
{
    unsigned long blocks = 0, bytes = 0;
    known_options(argc, argv, NULL, 0);
    for (int round = 0; round < ROUNDS; round++) {
        char *block = NULL;
        for (size_t step = 1; step <= STEPS; step++) {
            block = grow(block, step * 1000);
            if (!block)
                return 1;
            blocks++;
            bytes += step * 1000;
        }
        block = reallocarray(block, 3, 7);
        blocks++;
        bytes += 21;
        free(block);
    }
    printf("blocks=%lu\nbytes_asked=%lu\n", blocks, bytes);
    puts("EXIT-SUCCESS");
    return 0;
}
