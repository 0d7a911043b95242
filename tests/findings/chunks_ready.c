/* A game's world of 8,000 chunks of 256 KB, all made when the program starts, 2 GB, though the player sees four of
   them: of the three seconds, one and more is the first touch of pages. Cause: faults at the start. FIXED makes a chunk
   when it is first entered: 1.5 to 1.6 times the ticks in three seconds. */
#include "finding.h"

enum { Chunks = 8000, Side = 16, Height = 256 };

struct block {
    uint16_t kind, light;
};

struct chunk {
    struct block column[Side * Side][Height];
};

static struct chunk *world[Chunks];

static struct chunk *made(int number) {
    struct chunk *chunk = malloc(sizeof *chunk);
    if (chunk == NULL) exit(2);
    for (int c = 0; c < Side * Side; c++)
        for (int y = 0; y < Height; y++)
            chunk->column[c][y] = (struct block){.kind = (uint16_t)(y < 60 ? 1 + (number & 3) : 0), .light = 0};
    return chunk;
}

static struct chunk *entered(int number) {
    if (world[number] == NULL) world[number] = made(number);
    return world[number];
}

static uint32_t lit(struct chunk *chunk, uint32_t sun) {
    uint32_t sum = 0;
    for (int c = 0; c < Side * Side; c++) {
        uint32_t light = sun;
        for (int y = Height - 1; y >= 0; y--) {
            struct block *block = &chunk->column[c][y];
            light -= block->kind != 0 ? light >> 2 : light >> 8;
            block->light = (uint16_t)light;
        }
        sum += light;
    }
    return sum;
}

int main(int argc, char **argv) {
    double until = limit_of(argc, argv);
#ifndef FIXED
    for (int c = 0; c < Chunks; c++) world[c] = made(c);
#endif
    long ticks = 0;
    uint64_t sum = 0;
    for (; seconds() < until; ticks++)
        for (int c = 0; c < 4; c++) sum += lit(entered(5000 + c), 15000 + (uint32_t)(ticks & 255));
    keep_word(sum);
    printf("%.2f thousand ticks/s\n", (double)ticks / 1e3 / seconds());
}
