/*
 * Memory of every kind, mapped by functions that tests know, and used for long enough to be seen. It prints where each
 * kind lies and how long it is, in hexadecimal; what was unmapped was unmapped last.
 */
#include "known.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>

enum { ANONYMOUS = 8 << 20, SHARED = 4 << 20, FILE_BYTES = 1 << 20, MOVED = 16 << 20, TABLE = 1 << 20 };

static char zeroes[TABLE];
int constants[1000] = {1};

SEPARATE static char *map_anonymous(size_t bytes)
{
    char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

SEPARATE static char *map_shared(size_t bytes)
{
    char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

SEPARATE static char *map_file(const char *path, size_t bytes)
{
    int file = open(path, O_CREAT | O_RDWR | O_TRUNC, 0600);
    if (file < 0 || ftruncate(file, bytes))
        return NULL;
    char *at = mmap64(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    return at == MAP_FAILED ? NULL : at;
}

SEPARATE static char *move(char *at, size_t before, size_t after)
{
    char *moved = mremap(at, before, after, MREMAP_MAYMOVE);
    return moved == MAP_FAILED ? NULL : moved;
}

static void *fill(void *at)
{
    volatile char local[64] = {0};
    for (int round = 0; round < 40 * MEGA; round++)
        local[round % 64] += ((char *)at)[round % SHARED];
    return NULL;
}

static void tell(const char *what, const void *at, size_t bytes)
{
    printf("%s=%lx\n%s_bytes=%zx\n", what, (unsigned long)at, what, bytes);
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "mapped_memory.data";
    char *anonymous = map_anonymous(ANONYMOUS), *shared = map_shared(SHARED);
    char *file = map_file(path, FILE_BYTES), *block = malloc(SHARED);
    if (!anonymous || !shared || !file || !block) {
        fprintf(stderr, "cannot map memory here: %s\n", strerror(errno));
        return 1;
    }
    pthread_t thread;
    if (pthread_create(&thread, NULL, fill, shared))
        return 1;
    for (int round = 0; round < 20; round++) {
        memset(anonymous, round, ANONYMOUS);
        memset(shared, round, SHARED);
        memset(file, round, FILE_BYTES);
        memset(block, round, SHARED);
        for (int i = 0; i < TABLE; i++)
            zeroes[i] += block[i] + (char)constants[i % 1000];
    }
    pthread_join(thread, NULL);
    char *moved = move(anonymous, ANONYMOUS, MOVED);
    if (!moved)
        return 1;
    memset(moved, 1, MOVED);
    tell("anonymous", anonymous, ANONYMOUS);
    tell("shared", shared, SHARED);
    tell("file", file, FILE_BYTES);
    tell("moved", moved, MOVED);
    tell("block", block, SHARED);
    tell("zeroes", zeroes, sizeof zeroes);
    tell("constants", constants, sizeof constants);
    munmap(file, FILE_BYTES);
    munmap(moved, MOVED);
    unlink(path);
    free(block);
    puts("EXIT-SUCCESS");
    return 0;
}
