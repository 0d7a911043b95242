/*
 * As many threads as its argument says (4) allocate and free all the time, and look at every byte pattern before they free; the main thread
 * waits in read(0) for commands, a byte each: `k` allocates 10 blocks of 40000 bytes from `known_blocks` and keeps them,
 * and frees one of the 5 blocks that `at_start` asked for; `f` frees those that it kept. Each is answered by a line.
 * At the end of its input it prints the damage that it found (none) and EXIT-SUCCESS.
 */
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <pthread.h>
#include <string>
#include <unistd.h>
#include <vector>

namespace {

enum { SLOTS = 64, KEPT = 10, OLD = 5 };

volatile bool stop;
unsigned long damaged;
void *kept[KEPT];
void *old_blocks[OLD];

struct Block {
    unsigned char *bytes;
    size_t size;
    unsigned char fill;
    int how;
};

void check_and_free(Block &block)
{
    for (size_t at = 0; at < block.size; at++)
        if (block.bytes[at] != block.fill) {
            __atomic_fetch_add(&damaged, 1, __ATOMIC_RELAXED);
            break;
        }
    if (block.how == 3)
        delete[] block.bytes;
    else
        free(block.bytes);
    block.bytes = nullptr;
}

void allocate(Block &block, uint64_t random)
{
    block.size = random % 2000 + 1;
    block.fill = static_cast<unsigned char>(random >> 20);
    block.how = static_cast<int>(random >> 40) & 3;
    void *bytes;
    switch (block.how) {
    case 0:
        bytes = malloc(block.size);
        break;
    case 1:
        bytes = calloc(1, block.size);
        break;
    case 2:
        bytes = realloc(malloc(block.size / 2 + 1), block.size);
        break;
    default:
        bytes = new unsigned char[block.size];
    }
    block.bytes = static_cast<unsigned char *>(bytes);
    memset(block.bytes, block.fill, block.size);
}

void *work(void *seed)
{
    uint64_t random = reinterpret_cast<uintptr_t>(seed) * 0x9e3779b97f4a7c15u + 1;
    Block blocks[SLOTS] = {};
    while (!stop) {
        random ^= random >> 12;
        random ^= random << 25;
        random ^= random >> 27;
        Block &block = blocks[random % SLOTS];
        if (block.bytes)
            check_and_free(block);
        else
            allocate(block, random * 0x2545f4914f6cdd1du);
        std::string text(random >> 58, 'x');
        std::vector<std::string> copies(2, text);
        if (copies[1] != text)
            __atomic_fetch_add(&damaged, 1, __ATOMIC_RELAXED);
    }
    for (Block &block : blocks)
        if (block.bytes)
            check_and_free(block);
    return nullptr;
}

} // namespace

extern "C" __attribute__((noinline)) void at_start()
{
    for (void *&block : old_blocks)
        block = memset(malloc(50000), 1, 50000);
}

extern "C" __attribute__((noinline)) void known_blocks()
{
    for (void *&block : kept)
        block = memset(malloc(40000), 2, 40000);
}

static void obey(char command)
{
    static int old_freed;
    if (command == 'k') {
        known_blocks();
        if (old_freed < OLD)
            free(old_blocks[old_freed++]);
        printf("known=%d\n", KEPT);
    } else if (command == 'f') {
        for (void *block : kept)
            free(block);
        printf("freed=%d\n", KEPT);
    }
    fflush(stdout);
}

int main(int count, char **words)
{
    const long threads = count > 1 ? strtol(words[1], nullptr, 10) : 4;
    if (threads < 0 || threads > 64)
        return 2;
    at_start();
    pthread_t workers[64];
    for (long number = 0; number < threads; number++)
        if (pthread_create(&workers[number], nullptr, work, reinterpret_cast<void *>(number + 1)) != 0)
            return 1;
    printf("ready=1\n");
    fflush(stdout);
    char command;
    ssize_t got;
    /* A read that a signal cuts short would be a change that a profiler made. */
    while ((got = read(0, &command, 1)) == 1)
        obey(command);
    stop = true;
    for (long number = 0; number < threads; number++)
        pthread_join(workers[number], nullptr);
    printf("read_error=%d\ndamaged=%lu\nEXIT-SUCCESS\n", got < 0 ? errno : 0, damaged);
}
