/*
 * Memory that the program takes itself by sbrk and brk, beside malloc, which takes from the same place; a part is given
 * back last. It prints where each piece lies and how long it is, in hexadecimal.
 */
#include "known.h"

enum { TAKEN = 3 << 20, MORE = 5 << 20, BACK = 1 << 20 };

SEPARATE static char *take(intptr_t bytes)
{
    char *at = sbrk(bytes);
    return at == (char *)-1 ? NULL : at;
}

SEPARATE static char *take_up_to(char *end)
{
    char *before = sbrk(0);
    return brk(end) ? NULL : before;
}

static void tell(const char *what, const void *at, size_t bytes)
{
    printf("%s=%lx\n%s_bytes=%zx\n", what, (unsigned long)at, what, bytes);
}

int main(void)
{
    char *block = malloc(100), *taken = take(TAKEN);
    if (!block || !taken) {
        fprintf(stderr, "no memory by sbrk here: %s\n", strerror(errno));
        return 1;
    }
    char *more = take_up_to(taken + TAKEN + MORE);
    if (!more)
        return 1;
    for (int round = 0; round < 50; round++) {
        memset(taken, round, TAKEN);
        memset(more, round, MORE);
    }
    /* malloc has room for the first and goes on behind what is taken with the second. */
    char *first = malloc(100 << 10), *behind = malloc(100 << 10);
    if (!first || !behind)
        return 1;
    memset(behind, 1, 100 << 10);
    char *back = take(BACK);
    if (!back || sbrk(-BACK) == (char *)-1)
        return 1;
    tell("taken", taken, TAKEN);
    tell("more", more, MORE);
    tell("back", back, BACK);
    puts("EXIT-SUCCESS");
    return 0;
}
