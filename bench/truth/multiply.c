/*
 * The dense multiplications of recipes/ (one per program), over the first --rows rows of c, --repeat times.
 *
 * multiply1 walks down columns of b: tlb-bound at this size (16 KB between loads). multiply2 streams b, 8 bytes per
 * multiply-add in vectors: bandwidth-bound when b is larger than the last-level cache. multiply3 works in tiles: core-bound.
 * Traffic is simulated. Loads and stores are read off the compiled loops (`objdump -d`, gcc 12.2), per multiply-add.
 */
#include "truth.h"

#include "../../recipes/matrix.h"

/* MULTIPLY is the number of the recipe. Beside these, one load per inner loop: of c in the first, of a in the others. */
static const struct {
    double loads, stores;
} per_multiply_add[] = {
    [1] = {2, 1},             /* scalar: a and b; c is stored each time, for it might be a or b */
    [2] = {2.0 / VECTOR, 1.0 / VECTOR}, /* vectors of b and c */
    [3] = {5.0 / 4 / VECTOR, 1.0 / 4 / VECTOR}, /* four rows of b at once */
};

struct rows {
    struct share share;
    size_t repeat;
};

static void multiply_rows(size_t thread, size_t threads, void *context)
{
    const struct rows *rows = context;
    struct share share = rows->share;
    const size_t end = share.end_row;
    share.first_row = end * thread / threads;
    share.end_row = end * (thread + 1) / threads;
    for (size_t round = 0; round < rows->repeat; round++)
        multiplication.multiply(&share);
}

int main(int argc, char **argv)
{
    size_t size = 2048, count = 16, block = 256, repeat = 1, threads = 1, huge = 0;
    const struct argument table[] = {
        {"--size", "rows and columns, a multiple of 4", &size, 4, 100000, NULL},
        {"--rows", "rows of c that are computed", &count, 1, 100000, NULL},
        {"--block", "rows and columns of a tile (multiply3)", &block, 1, 100000, NULL},
        {"--repeat", "times", &repeat, 1, 1000000, NULL},
        {"--threads", "threads", &threads, 1, MAX_THREADS, NULL},
        {"--huge", "1: ask for 2 MB pages", &huge, 0, 1, NULL},
    };
    read_arguments(argc, argv, multiplication.summary, table, sizeof table / sizeof *table);
    if (count > size)
        fail("%zu rows of a matrix of %zu", count, size);
    const size_t bytes = 8 * size * size;
    double *a = array_of(bytes, huge), *b = array_of(bytes, huge), *c = array_of(bytes, huge);
    fill(a, size * count, 1.0);
    fill(b, size * size, 2.0);
    fill(c, size * count, 0.0);

    struct rows rows = {{size, 0, count, block, threads, a, b, c}, repeat};
    struct truth truth = unknown_truth(program_name, threads, repeat);
    truth.seconds = run_phase(threads, multiply_rows, &rows);
    const double expected = 2.0 * (double)size * (double)repeat;
    if (c[0] != expected || c[size * count - 1] != expected)
        fail("wrong product: %.17g, it should be %.17g", c[0], expected);
    truth.setup_written_bytes = 8 * (double)size * (double)(size + 2 * count);
    const double multiply_adds = (double)count * (double)size * (double)size * (double)repeat;
    const double inner_length = multiplication.blocked && block < size ? (double)block : (double)size;
    truth.loads = multiply_adds * (per_multiply_add[MULTIPLY].loads + 1 / inner_length);
    truth.stores = multiply_adds * per_multiply_add[MULTIPLY].stores + (double)size * (double)(size + 2 * count) / VECTOR;
    truth.flops = 2 * multiply_adds;
    print_truth(&truth);
    return 0;
}
