/*
 * Allocates from frames that are hard to follow: no frame pointers, a stack pointer that moves by alloca and by arrays of
 * variable length, recursion to changing depths, exceptions caught some frames further out, calls through function pointers.
 * --rounds (200) times the same; every block has at least 600 bytes. Its answer is its own stacks: however a profiler follows
 * them, they are the same.
 */
#include <alloca.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>

/* Keeps functions apart: not inlined, not cloned, not analysed by their callers. */
#define SEPARATE __attribute__((noinline, noclone))

static volatile unsigned char sink;

SEPARATE void use(void *block)
{
    sink = sink + *(volatile unsigned char *)block;
    free(block);
}

SEPARATE void *plain(size_t bytes)
{
    void *block = calloc(1, bytes);
    if (!block) {
        std::perror("cannot allocate");
        std::exit(1);
    }
    sink = sink + 1; /* no tail call */
    return block;
}

SEPARATE void with_alloca(size_t room)
{
    volatile char *space = (volatile char *)alloca(room);
    space[0] = 1;
    use(plain(600 + space[0]));
    space[room - 1] = 2;
}

SEPARATE void with_array(size_t count)
{
    volatile long words[count];
    words[0] = 5;
    use(plain(700 + (size_t)words[0]));
    words[count - 1] = 6;
}

SEPARATE long recursive(int depth)
{
    volatile long here = depth;
    if (depth == 0)
        use(plain(800));
    else
        recursive(depth - 1);
    return here;
}

struct Guard {
    void *block;
    SEPARATE explicit Guard(size_t bytes) : block(plain(bytes)) {}
    SEPARATE ~Guard() { use(block); }
};

SEPARATE void throws(int depth)
{
    Guard guard(900);
    if (depth == 0)
        throw depth;
    throws(depth - 1);
    sink = sink + 1;
}

SEPARATE void catches(int depth)
{
    try {
        throws(depth);
    } catch (int) {
        use(plain(1000));
    }
}

SEPARATE void by_new(size_t count)
{
    long *numbers = new long[count];
    numbers[0] = 1;
    sink = sink + (unsigned char)numbers[0];
    delete[] numbers;
}

static void (*const indirect[])(size_t) = {with_alloca, with_array, by_new};

int main(int argc, char **argv)
{
    long rounds = 200;
    if (argc == 3 && std::strcmp(argv[1], "--rounds") == 0)
        rounds = std::atol(argv[2]);
    for (long round = 0; round < rounds; round++) {
        with_alloca(16 + 64 * (size_t)(round % 7));
        with_array(1 + 8 * (size_t)(round % 5));
        recursive((int)(round % 12));
        catches((int)(round % 4));
        for (size_t n = 0; n < sizeof indirect / sizeof *indirect; n++)
            indirect[n](100 + (size_t)(round % 3));
    }
    printf("rounds=%ld\nEXIT-SUCCESS\n", rounds);
    return 0;
}
