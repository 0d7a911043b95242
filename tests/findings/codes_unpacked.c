/* A decoder of prefix codes: each code's length, looked up in a table of 2 KiB, says where the next one starts; looks
   like a chain of dependent loads, but all of them hit the first-level cache, and the input of 24 MB is read byte by
   byte, ahead. ALIKE decodes the same 64 KB again and again: 1.0 times the speed. */
#include "finding.h"

enum { INDEX = 9, CODED = 24 << 20 };

#ifdef ALIKE
#define USED (64 << 10)
#else
#define USED CODED
#endif

struct entry {
    uint16_t symbol, length;
};
struct reader {
    const uint8_t *at, *end;
    uint64_t bits;
    unsigned have;
};

static inline void fill(struct reader *reader) {
    while (reader->have <= 56 && reader->at < reader->end) {
        reader->bits |= (uint64_t)*reader->at++ << reader->have;
        reader->have += 8;
    }
}

static uint64_t unpack(const struct entry *table, struct reader reader, uint8_t *out) {
    uint8_t *start = out;
    for (;;) {
        fill(&reader);
        if (reader.have < INDEX) return (uint64_t)(out - start);
        for (int i = 0; i < 6 && reader.have >= INDEX; i++) {
            struct entry entry = table[reader.bits & ((1 << INDEX) - 1)];
            *out++ = (uint8_t)entry.symbol;
            reader.bits >>= entry.length;
            reader.have -= entry.length;
        }
    }
}

int main(int argc, char **argv) {
    double until = limit_of(argc, argv);
    static struct entry table[1 << INDEX];
    /* A code of k ones and a zero stands for k, up to six. */
    for (unsigned t = 0; t < 1 << INDEX; t++) {
        unsigned ones = 0;
        while (ones < 6 && t >> ones & 1) ones++;
        table[t] = (struct entry){(uint16_t)ones, (uint16_t)(ones + 1)};
    }
    uint8_t *coded = malloc(CODED), *out = malloc(256 << 10);
    uint64_t random = 271828, symbols = 0;
    for (size_t i = 0; i < CODED; i += 8) *(uint64_t *)(coded + i) = next_random(&random);
    double begun = seconds();
    for (size_t at = 0; seconds() < until; at = (at + (32 << 10)) % USED)
        symbols += unpack(table, (struct reader){coded + at, coded + at + (32 << 10), 0, 0}, out);
    keep_word(out[9]);
    printf("%.1f million symbols/s\n", (double)symbols / 1e6 / (seconds() - begun));
    return 0;
}
