/* A matrix as an array of rows, each taken from an arena; its columns are normalised one by one, as the formula is
   written: the loop inside goes down the rows, 4 KB apart. One value of each cache line is used before the next row is
   touched, and the lines of a column, 16 MB, have left the second-level cache when the next column asks for them.
   1 GiB of doubles in huge pages, so that page walks do not count; every eighth column comes from DRAM, the others at
   best from the last level, which costs enough.
   Fixed (-DFIXED: row by row, with an array of sums) a round is five times as fast. */
#include "finding.h"

enum { ROWS = 256 << 10, COLUMNS = 520, TOGETHER = 8 };

struct matrix { double **row; int rows, columns; };
struct arena { char *next; };

static void *take(struct arena *arena, size_t bytes) {
    void *taken = arena->next;
    arena->next += bytes;
    return taken;
}

static void normalise(struct matrix *m, int first, int last, double *sums) {
    for (int c = first; c < last; c++) sums[c] = 0.0;
#ifdef FIXED
    for (int r = 0; r < m->rows; r++)
        for (int c = first; c < last; c++) sums[c] += m->row[r][c];
    for (int r = 0; r < m->rows; r++)
        for (int c = first; c < last; c++) m->row[r][c] /= sums[c];
#else
    for (int c = first; c < last; c++) {
        for (int r = 0; r < m->rows; r++) sums[c] += m->row[r][c];
        for (int r = 0; r < m->rows; r++) m->row[r][c] /= sums[c];
    }
#endif
}

int main(int argc, char **argv) {
    double limit = limit_of(argc, argv);
    struct matrix m = {calloc(ROWS, sizeof(double *)), ROWS, COLUMNS};
    struct arena arena = {huge((size_t)ROWS * COLUMNS * sizeof(double))};
    double *sums = calloc(COLUMNS, sizeof *sums);
    if (m.row == NULL || sums == NULL) return 2;
    for (int r = 0; r < ROWS; r++) {
        m.row[r] = take(&arena, COLUMNS * sizeof(double));
        for (int c = 0; c < COLUMNS; c++) m.row[r][c] = 1.0 + (r + c) % 5;
    }
    double begun = seconds();
    long rounds = 0;
    for (int at = 0; seconds() < limit + begun; at = (at + TOGETHER) % COLUMNS) {
        normalise(&m, at, at + TOGETHER, sums);
        rounds++;
    }
    printf("%ld rounds, %g\n", rounds, sums[0]);
    return 0;
}
