/* Genome statistics: each run of 15 bases is counted in a table of 4^15 bytes, directly, then the frequencies are
   summed up of a sample. One genome of four million bases and the end, whatever the argument: about a second. Cause:
   the first touch of 1 GB, nearly each page for a few counts. FIXED has a hash table of 64 MB. Measured: 4 to 7
   times the speed. */
#include "finding.h"

enum { Length = 15, Bases = 4000000 };
static const uint32_t Kinds = 1u << (2 * Length);

struct genome {
    uint64_t state;
    unsigned left, bits;
};

static unsigned next_base(struct genome *genome) {
    if (genome->left == 0) genome->bits = (unsigned)(next_random(&genome->state) >> 32), genome->left = 16;
    unsigned base = genome->bits & 3;
    genome->bits >>= 2, genome->left--;
    return base;
}

#ifdef FIXED
static struct slot {
    uint32_t kmer, count;
} *slots;
static const uint32_t Slots = 1u << 23;

static void make_table(void) { slots = calloc(Slots, sizeof *slots); }
static struct slot *find(uint32_t kmer) {
    uint32_t at = kmer * 2654435761u >> 9;
    while (slots[at].count != 0 && slots[at].kmer != kmer) at = (at + 1) & (Slots - 1);
    return &slots[at];
}
static void count(uint32_t kmer) {
    struct slot *slot = find(kmer);
    slot->kmer = kmer;
    if (slot->count < 255) slot->count++;
}
static uint32_t count_of(uint32_t kmer) { return find(kmer)->count; }
#else
static uint8_t *counts;

static void make_table(void) { counts = calloc(Kinds, 1); }
static void count(uint32_t kmer) {
    if (counts[kmer] < 255) counts[kmer]++;
}
static uint32_t count_of(uint32_t kmer) { return counts[kmer]; }
#endif

int main(void) {
    seconds();
    make_table();
    struct genome genome = {.state = 2024};
    uint32_t kmer = 0;
    long frequency[16] = {0};
    for (int b = 0; b < Bases; b++) {
        kmer = (kmer << 2 | next_base(&genome)) & (Kinds - 1);
        if (b >= Length - 1) count(kmer);
    }
    for (uint32_t k = 0; k < Kinds; k += 4096) frequency[count_of(k) < 15 ? count_of(k) : 15]++;
    keep_word((uint64_t)frequency[1]);
    printf("%.2f million bases/s\n", Bases / 1e6 / seconds());
}
