/*
 * y = A x for a sparse matrix in CSR form: streams of values and columns, and a gather from x.
 *
 * Half of the columns of a row lie near the diagonal, half anywhere in x. x alone would fit into the last-level
 * cache, but competes with the streams: simulated. Bandwidth-bound by the expert's roofline (2 flops per 12 bytes).
 */
#include "truth.h"

enum { PER_ROW = 16 };

struct csr {
    const uint32_t *row_starts, *columns;
    const double *values, *x;
    double *y;
    size_t rows, repeat;
};

static void multiply(size_t thread, size_t threads, void *context)
{
    const struct csr csr = *(struct csr *)context;
    const size_t first = csr.rows * thread / threads, end = csr.rows * (thread + 1) / threads;
    for (size_t round = 0; round < csr.repeat; round++) {
        uint32_t n = csr.row_starts[first];
        for (size_t row = first; row < end; row++) {
            const uint32_t stop = csr.row_starts[row + 1];
            double sum = 0;
            for (; n < stop; n++)
                sum += csr.values[n] * csr.x[csr.columns[n]];
            csr.y[row] = sum;
        }
        __asm__ volatile("" : : : "memory");
    }
}

int main(int argc, char **argv)
{
    size_t bits = 20, repeat = 40, threads = 1, huge = 0;
    const struct argument table[] = {
        {"--bits", "2^N rows and columns, 16 entries in each row", &bits, 16, 27, NULL},
        {"--repeat", "multiplications", &repeat, 1, 1000000, NULL},
        {"--threads", "threads", &threads, 1, MAX_THREADS, NULL},
        {"--huge", "1: ask for 2 MB pages", &huge, 0, 1, NULL},
    };
    read_arguments(argc, argv, "Sparse matrix times vector.", table, sizeof table / sizeof *table);
    const size_t rows = (size_t)1 << bits, entries = rows * PER_ROW;
    uint32_t *row_starts = array_of((rows + 1) * 4, huge), *columns = array_of(entries * 4, huge);
    double *values = array_of(entries * 8, huge), *x = array_of(rows * 8, huge), *y = array_of(rows * 8, huge);
    fill(values, entries, 1.0);
    fill(x, rows, 1.0);
    fill(y, rows, 0.0);
    for (size_t row = 0; row <= rows; row++)
        row_starts[row] = (uint32_t)(row * PER_ROW);
    for (size_t n = 0; n < entries; n++)
        columns[n] = (uint32_t)((n % 2 ? mixed(n, 32) : n / PER_ROW + n % PER_ROW) & (rows - 1));

    struct csr context = {row_starts, columns, values, x, y, rows, repeat};
    struct truth truth = unknown_truth("spmv", threads, repeat);
    truth.seconds = run_phase(threads, multiply, &context);
    for (size_t row = 0; row < rows; row += rows / 64)
        if (y[row] != PER_ROW)
            fail("y[%zu] is %g, it should be %d", row, y[row], PER_ROW);
    const double rounds = (double)repeat;
    truth.setup_written_bytes = 12 * (double)entries + 20 * (double)rows;
    /* Per entry a value, a column, an element of x; per row the next start, and y. */
    truth.loads = rounds * (3 * (double)entries + (double)rows + (double)threads);
    truth.stores = rounds * (double)rows + (double)entries / VECTOR + 2 * (double)rows / VECTOR + (double)(rows + 1) +
                   (double)entries;
    truth.flops = rounds * 2 * (double)entries;
    print_truth(&truth);
    return 0;
}
