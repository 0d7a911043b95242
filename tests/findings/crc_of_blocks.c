/* Near-miss of repeated-loads: a checksum looks each byte up in a table of 1 KB, so loads are all over the loop and most
   hit the same few lines; but each is another element, wanted once, and the time is the chain from one to the next.
   Keeping anything in variables brings nothing; 256 KB in, from the cache. */
#include "finding.h"

enum { BLOCK = 4096, BLOCKS = 64 };

struct file { uint8_t blocks[BLOCKS][BLOCK]; uint32_t sums[BLOCKS]; };

static uint32_t table[256];

static void fill_table(void) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t value = i;
        for (int bit = 0; bit < 8; bit++) value = value & 1 ? value >> 1 ^ 0xedb88320u : value >> 1;
        table[i] = value;
    }
}

static uint32_t crc(const uint8_t *bytes, size_t count) {
    uint32_t sum = ~0u;
    while (count--) sum = sum >> 8 ^ table[(uint8_t)sum ^ *bytes++];
    return ~sum;
}

int main(int argc, char **argv) {
    double limit = limit_of(argc, argv);
    static struct file file;
    fill_table();
    for (int b = 0; b < BLOCKS; b++)
        for (int i = 0; i < BLOCK; i++) file.blocks[b][i] = (uint8_t)(b * 31 + i * 7);
    long rounds = 0;
    for (; seconds() < limit; rounds++)
        for (int b = 0; b < BLOCKS; b++) file.sums[b] += crc(file.blocks[b], BLOCK);
    printf("%ld rounds, %08x\n", rounds, file.sums[9]);
    return 0;
}
