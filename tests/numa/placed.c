/* Threads, one on each node with CPUs, that go through memory whose pages others touched first: the share of accesses to another
   node is known by arithmetic. placed WAY SECONDS NODES
   own      each fills and reads its part                        0
   central  the first thread fills all parts                     1 - 1/N
   swapped  the next thread fills each part                      1
   half     the first thread fills every second part             parts 2, 4, ... of N are remote
   shared   each fills its part, all read all                    1 - 1/N
   one      one thread alone                                     0
   mixed    own parts, and as much that the first thread fills   half of 1 - 1/N
   cold     own, and one pass of 31 is over a second block, which the first thread fills    1/31 of 1 - 1/N
   waves    the filler of each MiB goes around                   1 - 1/N
   around   own, with memory interleaved over all M nodes        1 - 1/M

   Where there are not so many nodes (one, for a recording that another machine is predicted from), threads stay nowhere and memory is
   where the kernel puts it. */
#include "../findings/nodes.h"
#include <sys/syscall.h>
#include <unistd.h>

enum { PART = (8 << 20) / 8, PAGE_WORDS = 512, MOST = 16 };

static const char *way;
static int nodes;
static double limit;
static double *parts, *common;
static pthread_barrier_t barrier;

static int is(const char *name) { return strcmp(way, name) == 0; }

/* Which thread fills a page of a part. */
static int filler(int part, size_t page) {
    if (is("central") || is("one")) return 0;
    if (is("swapped")) return (part + 1) % nodes;
    if (is("half")) return part % 2 ? 0 : part;
    if (is("waves")) return (int)((page / 256 + (size_t)part) % (size_t)nodes);
    return part;
}

static void fill_pages(double *of, int part, int own) {
    for (size_t page = 0; page < PART / PAGE_WORDS; page++)
        if (filler(part, page) == own)
            for (size_t at = 0; at < PAGE_WORDS; at++) of[page * PAGE_WORDS + at] = (double)at;
}

__attribute__((noinline)) static double read_part(const double *part) {
    double x = 0.0;
    for (size_t at = 0; at < PART; at++) x += part[at];
    return x;
}

/* Whether this machine has that node. */
static int has_node(int node) {
    char name[64];
    snprintf(name, sizeof name, "/sys/devices/system/node/node%d", node);
    return access(name, F_OK) == 0;
}

static void *work(void *number) {
    int own = (int)(size_t)number;
    if (has_node(nodes - 1)) stay_on(own);
    for (int part = 0; part < nodes; part++) fill_pages(parts + (size_t)part * PART, part, own);
    if (own == 0)
        for (int part = 0; part < nodes; part++)
            for (size_t at = 0; at < PART; at++) common[(size_t)part * PART + at] = 1.0;
    pthread_barrier_wait(&barrier);
    if (is("one") && own > 0) return NULL;
    for (int round = 0; seconds() < limit; round++) {
        int part = is("shared") ? (own + round) % nodes : own;
        keep(read_part(parts + (size_t)part * PART));
        if (is("mixed") || (is("cold") && round % 30 == 29)) keep(read_part(common + (size_t)own * PART));
    }
    return NULL;
}

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    way = argv[1];
    nodes = atoi(argv[3]);
    if (nodes < 1 || nodes > MOST) return 2;
    if (is("around") && has_node(nodes - 1)) {
        unsigned long all = (1UL << atoi(argv[4])) - 1;
        /* MPOL_INTERLEAVE */
        if (syscall(SYS_set_mempolicy, 3, &all, 64) != 0) return 2;
    }
    size_t bytes = (size_t)nodes * PART * sizeof *parts;
    parts = aligned_alloc(4096, bytes);
    /* Of another size, so that it can be placed alone. */
    common = aligned_alloc(4096, bytes + (is("cold") ? 4096 : 0));
    if (parts == NULL || common == NULL) return 2;
    /* So that a page is what one thread touched first. */
    madvise(parts, bytes, MADV_NOHUGEPAGE);
    madvise(common, bytes, MADV_NOHUGEPAGE);
    pthread_barrier_init(&barrier, NULL, (unsigned)nodes);
    limit = seconds() + atof(argv[2]);
    pthread_t threads[MOST];
    for (int number = 0; number < nodes; number++) pthread_create(&threads[number], NULL, work, (void *)(size_t)number);
    for (int number = 0; number < nodes; number++) pthread_join(threads[number], NULL);
}
