/* Sums of embedding rows from a table of 4 GiB on small pages, of which the requests want only 64 rows, each on a page
   of its own: looks like random access far and wide, but all rows stay in the first-level cache and its TLB. ALIKE has
   the 64 rows in one array: 1.02 times the speed. */
#include "finding.h"

enum { WIDTH = 96, HOT = 64, BAG = 16 };
#define ROWS ((size_t)(4ull << 30) / (WIDTH * sizeof(float)))

struct request {
    size_t rows[BAG];
};

static void bag(const float *table, const struct request *request, float *sum) {
    for (int i = 0; i < WIDTH; i++) sum[i] *= 0.5f;
    for (int b = 0; b < BAG; b++) {
        const float *row = table + request->rows[b] * WIDTH;
        for (int i = 0; i < WIDTH; i++) sum[i] += row[i] * (float)(b + 1);
    }
}

int main(int argc, char **argv) {
    double until = limit_of(argc, argv);
    float *table = mmap(NULL, ROWS * WIDTH * sizeof(float), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (table == MAP_FAILED) return 2;
    size_t hot[HOT];
    uint64_t random = 31337;
    for (int h = 0; h < HOT; h++) {
#ifdef ALIKE
        hot[h] = (size_t)h;
#else
        hot[h] = next_random(&random) % ROWS;
#endif
        for (int i = 0; i < WIDTH; i++) table[hot[h] * WIDTH + (size_t)i] = 1e-3f * (float)(h + i);
    }
    static struct request requests[256];
    for (int r = 0; r < 256; r++)
        for (int b = 0; b < BAG; b++) requests[r].rows[b] = hot[next_random(&random) % HOT];
    float sum[WIDTH] = {0};
    long bags = 0;
    for (; seconds() < until; bags += 256)
        for (int r = 0; r < 256; r++) bag(table, &requests[r], sum);
    keep(sum[5]);
    printf("%.2f million bags/s\n", (double)bags / 1e6 / seconds());
    return 0;
}
