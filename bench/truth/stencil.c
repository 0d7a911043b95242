/*
 * Jacobi sweeps over a grid: 5 points in two dimensions, 7 in three; two grids change roles.
 *
 * Bandwidth-bound. If the rows (planes) around a point stay cached, a sweep reads one grid, reads the other because
 * stores allocate, and writes that: 24 bytes per point. Otherwise more: simulated.
 */
#include "truth.h"

struct grid {
    double *from, *to;
    size_t side, planes, repeat; /* planes 1: two dimensions */
};

/* 5 loads, 1 store, 3 additions and an FMA (2) and a multiplication per lane: 6 flops per point. */
static void row_of_5(double *to, const double *from, size_t side)
{
    const __m256d centre = _mm256_set1_pd(0.5), around = _mm256_set1_pd(0.125);
    for (size_t x = VECTOR; x + VECTOR < side; x += VECTOR) {
        const double *at = from + x;
        __m256d sum = _mm256_add_pd(_mm256_add_pd(_mm256_loadu_pd(at - 1), _mm256_loadu_pd(at + 1)),
                                    _mm256_add_pd(_mm256_loadu_pd(at - side), _mm256_loadu_pd(at + side)));
        _mm256_store_pd(to + x, _mm256_fmadd_pd(centre, _mm256_load_pd(at), _mm256_mul_pd(around, sum)));
    }
}

/* 7 loads, 1 store, 8 flops per point. */
static void row_of_7(double *to, const double *from, size_t side, size_t plane)
{
    const __m256d centre = _mm256_set1_pd(0.25), around = _mm256_set1_pd(0.125);
    for (size_t x = VECTOR; x + VECTOR < side; x += VECTOR) {
        const double *at = from + x;
        __m256d sum = _mm256_add_pd(_mm256_add_pd(_mm256_loadu_pd(at - 1), _mm256_loadu_pd(at + 1)),
                                    _mm256_add_pd(_mm256_loadu_pd(at - side), _mm256_loadu_pd(at + side)));
        sum = _mm256_add_pd(sum, _mm256_add_pd(_mm256_loadu_pd(at - plane), _mm256_loadu_pd(at + plane)));
        _mm256_store_pd(to + x, _mm256_fmadd_pd(centre, _mm256_load_pd(at), _mm256_mul_pd(around, sum)));
    }
}

static void sweeps(size_t thread, size_t threads, void *context)
{
    (void)thread, (void)threads;
    const struct grid *grid = context;
    const size_t side = grid->side, plane = side * side;
    double *from = grid->from, *to = grid->to;
    for (size_t sweep = 0; sweep < grid->repeat; sweep++) {
        if (grid->planes == 1)
            for (size_t y = 1; y + 1 < side; y++)
                row_of_5(to + y * side, from + y * side, side);
        for (size_t z = 1; z + 1 < grid->planes; z++)
            for (size_t y = 1; y + 1 < side; y++)
                row_of_7(to + z * plane + y * side, from + z * plane + y * side, side, plane);
        double *other = from;
        from = to;
        to = other;
    }
}

int main(int argc, char **argv)
{
    size_t dimensions = 2, side = 4000, repeat = 40, huge = 0;
    const struct argument table[] = {
        {"--dimensions", "2 or 3", &dimensions, 2, 3, NULL},
        {"--side", "points along an edge, a multiple of 4", &side, 16, 100000, NULL},
        {"--repeat", "sweeps", &repeat, 1, 1000000, NULL},
        {"--huge", "1: ask for 2 MB pages", &huge, 0, 1, NULL},
    };
    read_arguments(argc, argv, "Stencil sweeps.", table, sizeof table / sizeof *table);
    side -= side % VECTOR;
    const size_t planes = dimensions == 2 ? 1 : side, points = side * side * planes;
    struct grid grid = {array_of(8 * points, huge), array_of(8 * points, huge), side, planes, repeat};
    fill(grid.from, points, 1.0);
    fill(grid.to, points, 1.0);

    struct truth truth = unknown_truth(dimensions == 2 ? "stencil2d" : "stencil3d", 1, repeat);
    truth.seconds = run_phase(1, sweeps, &grid);
    const double inner = (double)(side - 2 * VECTOR) * (double)(side - 2) * (double)(dimensions == 2 ? 1 : side - 2);
    const double vectors = inner / VECTOR * (double)repeat;
    truth.setup_written_bytes = 16 * (double)points;
    truth.loads = vectors * (dimensions == 2 ? 5 : 7);
    truth.stores = vectors + 2 * (double)points / VECTOR;
    truth.flops = inner * (double)repeat * (dimensions == 2 ? 6 : 8);
    print_truth(&truth);
    return 0;
}
