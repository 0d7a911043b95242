/*
 * One function per kind of memory object, each for --ms of CPU and all over the same number of words: a heap array, small
 * heap nodes, a global array, a static one, an array on the stack, anonymous memory of its own, a mapped file. Prints where
 * each lies before it begins (`heap_array=0x...`) and how often it was gone through (`heap_array_rounds=N`): each round
 * loads or stores each word, or node, once.
 */
#include "checked.h"

#include <sys/mman.h>

enum { WORDS = 1 << 16, BYTES = WORDS * 8, NODES = 1 << 14, STACK_WORDS = 1 << 13 };

struct node {
    struct node *next;
    uint64_t value, unused[4];
};

uint64_t global_array[WORDS];
static uint64_t static_array[WORDS];
static uint64_t *heap_words, *mapped_words, *file_words;
static struct node *first_node;

/* No function: an inlined one would have the accesses. */
#define RETURN_SUM(words)                                                                                              \
    do {                                                                                                               \
        uint64_t sum = 0;                                                                                              \
        for (long n = 0; n < WORDS; n++)                                                                               \
            sum += (words)[n];                                                                                         \
        return sum;                                                                                                    \
    } while (0)

SEPARATE uint64_t use_heap_array(void)
{
    RETURN_SUM(heap_words);
}

SEPARATE uint64_t use_small_nodes(void)
{
    uint64_t sum = 0;
    for (const struct node *node = first_node; node; node = node->next)
        sum += node->value;
    return sum;
}

SEPARATE uint64_t use_global_array(void)
{
    for (long n = 0; n < WORDS; n++)
        global_array[n] += 3;
    return global_array[WORDS / 2];
}

SEPARATE uint64_t use_static_array(void)
{
    RETURN_SUM(static_array);
}

SEPARATE uint64_t use_stack_array(void)
{
    volatile uint64_t words[STACK_WORDS];
    uint64_t sum = 0;
    for (long n = 0; n < STACK_WORDS; n++)
        words[n] = (uint64_t)n;
    for (long round = 0; round < 7; round++)
        for (long n = 0; n < STACK_WORDS; n++)
            sum += words[n];
    return sum;
}

SEPARATE uint64_t use_mapped_array(void)
{
    RETURN_SUM(mapped_words);
}

SEPARATE uint64_t use_mapped_file(void)
{
    RETURN_SUM(file_words);
}

SEPARATE void make_heap_array(void)
{
    heap_words = malloc(BYTES);
}

/* Each node lies at another address than the order of the list says. */
SEPARATE void make_small_nodes(void)
{
    static struct node *nodes[NODES];
    for (long n = 0; n < NODES; n++)
        nodes[n] = malloc(sizeof **nodes);
    for (long n = 0; n < NODES; n++) {
        struct node *node = nodes[n * 4099 % NODES];
        *node = (struct node){.next = first_node, .value = (uint64_t)n};
        first_node = node;
    }
}

SEPARATE void make_mapped_array(void)
{
    mapped_words = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

SEPARATE void make_mapped_file(const char *path)
{
    FILE *file = fopen(path, "w+");
    if (!file || ftruncate(fileno(file), BYTES) != 0)
        known_impossible("make the file");
    file_words = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
    fclose(file);
}

static const struct {
    const char *name;
    uint64_t (*use)(void);
} phases[] = {{"heap_array", use_heap_array},     {"small_nodes", use_small_nodes},
              {"global_array", use_global_array}, {"static_array", use_static_array},
              {"stack_array", use_stack_array},   {"mapped_array", use_mapped_array},
              {"mapped_file", use_mapped_file}};

int main(int argc, char **argv)
{
    long ms = 100;
    const struct known_option options[] = {{"--ms", &ms, 1, 3600000}};
    known_options(argc, argv, options, 1);
    make_heap_array();
    make_small_nodes();
    make_mapped_array();
    make_mapped_file("memory_objects.data");
    if (!heap_words || !first_node || mapped_words == MAP_FAILED || file_words == MAP_FAILED)
        known_impossible("have that much memory");
    memset(heap_words, 1, BYTES);
    memset(static_array, 1, sizeof static_array);
    memset(mapped_words, 1, BYTES);
    memset(file_words, 1, BYTES);
    printf("heap_array=%p\nglobal_array=%p\nstatic_array=%p\nmapped_array=%p\nmapped_file=%p\n", (void *)heap_words,
           (void *)global_array, (void *)static_array, (void *)mapped_words, (void *)file_words);
    uint64_t sum = 0;
    for (size_t phase = 0; phase < sizeof phases / sizeof *phases; phase++) {
        long rounds = 0;
        /* Sixteen calls between two looks at the clock: a system call ends a burst. */
        for (int64_t end = thread_cpu_ns() + (int64_t)ms * MEGA; thread_cpu_ns() < end;)
            for (int call = 0; call < 16; call++, rounds++)
                sum = sum_of(sum, phases[phase].use());
        printf("%s_rounds=%ld\n", phases[phase].name, rounds);
    }
    printf("checksum=%016lx\n", (unsigned long)sum);
    unlink("memory_objects.data");
    puts("EXIT-SUCCESS");
    return 0;
}
