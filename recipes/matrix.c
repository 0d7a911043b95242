/*
 * Recipes R2 (page faults, huge pages) and R4 (scalability): main program of all dense multiplications.
 *
 * Four matrices a, b, c, t of size x size doubles come from malloc: 4 * 8 * size^2 bytes, printed as
 * matrix_bytes; size 8192 makes 2147483648. (t is scratch that no multiplication uses: the published sample
 * has it and its memory totals include it.) The only other heap blocks are those that the C library makes: 272
 * bytes for a thread, and a file buffer while threads are pinned. Initialisation touches every
 * page once: matrix_bytes / 4096 page faults without huge pages.
 *
 * Arithmetic: 2 * size^3 operations. The elements are small whole numbers, so every sum is exact in a double
 * and the result does not depend on the order of summation. It is checked by Freivalds' test, c x = a (b x)
 * for one vector x, at a cost of 3 size^2 (R. Freivalds, "Probabilistic machines can use less running time", 1977).
 */
#define _GNU_SOURCE
#include "matrix.h"
#include "common.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

enum { MAX_THREADS = 1024 };

/* Static, not on the heap: the heap is for the matrices. */
static struct worker {
    pthread_t thread;
    struct share share;
    double *t;
    int core; /* -1: where the kernel likes */
} workers[MAX_THREADS];
static pthread_barrier_t rows_are_ready;

static double value_of_a(size_t row, size_t column) { return (double)((row + 2 * column) % 11); }
static double value_of_b(size_t row, size_t column) { return (double)((3 * row + column) % 13); }
static double value_of_x(size_t row) { return (double)(row * 2654435761u % 17); }

static void initialise_rows(const struct share *share, double *t, size_t first_row, size_t end_row)
{
    const size_t size = share->size;
    /* The cast: only the initialisation writes a and b. */
    double *a = (double *)share->a, *b = (double *)share->b;
    for (size_t row = first_row; row < end_row; row++)
        for (size_t column = 0; column < size; column++) {
            a[row * size + column] = value_of_a(row, column);
            b[row * size + column] = value_of_b(row, column);
            share->c[row * size + column] = 0;
            t[row * size + column] = 0;
        }
}

static bool is_first_hardware_thread_of_its_core(int cpu)
{
    char path[96];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
    FILE *file = fopen(path, "r");
    int first = cpu;
    if (file) {
        if (fscanf(file, "%d", &first) != 1)
            first = cpu;
        fclose(file);
    }
    return first == cpu;
}

/* The n-th processor we may use, whole cores first, then their second hardware threads; wraps around. */
static int core_for_thread(size_t n)
{
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        fail("cannot read the processor set: %s", strerror(errno));
    n %= (size_t)CPU_COUNT(&allowed);
    for (int pass = 0; pass < 2; pass++)
        for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
            if (CPU_ISSET(cpu, &allowed) && is_first_hardware_thread_of_its_core(cpu) == (pass == 0) && n-- == 0)
                return cpu;
    fail("no processor for thread %zu", n);
}

static void *matrix_thread(void *argument)
{
    const struct worker *worker = argument;
    if (worker->core >= 0) {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(worker->core, &one);
        int problem = pthread_setaffinity_np(pthread_self(), sizeof one, &one);
        if (problem != 0)
            fail("cannot pin a thread to processor %d: %s", worker->core, strerror(problem));
        initialise_rows(&worker->share, worker->t, worker->share.first_row, worker->share.end_row);
    }
    pthread_barrier_wait(&rows_are_ready);
    multiplication.multiply(&worker->share);
    return NULL;
}

/* Splits the rows evenly; returns the seconds from the moment when all threads are ready. */
static double multiply_by_threads(const struct share *all, double *t)
{
    const bool pinned = multiplication.pinned_first_touch;
    pthread_barrier_init(&rows_are_ready, NULL, (unsigned)all->threads + 1);
    for (size_t n = 0; n < all->threads; n++) {
        struct worker *worker = &workers[n];
        *worker = (struct worker){.share = *all, .t = t, .core = pinned ? core_for_thread(n) : -1};
        worker->share.first_row = all->size * n / all->threads;
        worker->share.end_row = all->size * (n + 1) / all->threads;
        int problem = pthread_create(&worker->thread, NULL, matrix_thread, worker);
        if (problem != 0)
            fail("cannot start thread %zu of %zu: %s", n + 1, all->threads, strerror(problem));
        char name[16];
        snprintf(name, sizeof name, "matrix-%u", (unsigned)n % 100000);
        pthread_setname_np(worker->thread, name);
    }
    pthread_barrier_wait(&rows_are_ready);
    double start = seconds_now();
    for (size_t n = 0; n < all->threads; n++)
        pthread_join(workers[n].thread, NULL);
    return seconds_now() - start;
}

/* The sum over c. `y` is scratch of `size` doubles, for b x. */
static double checked_sum(const struct share *share, double *y)
{
    const size_t size = share->size;
    for (size_t row = 0; row < size; row++) {
        y[row] = 0;
        for (size_t column = 0; column < size; column++)
            y[row] += share->b[row * size + column] * value_of_x(column);
    }
    double sum = 0;
    for (size_t row = 0; row < size; row++) {
        double expected = 0, found = 0;
        for (size_t column = 0; column < size; column++) {
            expected += share->a[row * size + column] * y[column];
            found += share->c[row * size + column] * value_of_x(column);
            sum += share->c[row * size + column];
        }
        if (!(expected == found))
            fail("row %zu of the product is wrong: its check is %.17g, it should be %.17g", row, found, expected);
    }
    return sum;
}

int main(int argc, char **argv)
{
    size_t size = 1024, block = 256, threads = (size_t)sysconf(_SC_NPROCESSORS_ONLN);
    const struct argument table[] = {
        {"--size", "rows and columns of the matrices", &size, 1, 1000000, NULL},
        {"--threads", "threads", &threads, 1, MAX_THREADS, NULL},
        {"--block", "rows and columns of a tile", &block, 1, 1000000, NULL},
    };
    read_arguments(argc, argv, multiplication.summary, table, multiplication.blocked ? 3 : 2);

    const size_t bytes = size * size * sizeof(double);
    double *a = malloc(bytes);
    double *b = malloc(bytes);
    double *c = malloc(bytes);
    double *t = malloc(bytes);
    if (!a || !b || !c || !t)
        fail("cannot allocate 4 matrices of %zu bytes; lower --size", bytes);
    const struct share all = {size, 0, size, block, threads, a, b, c};
    /* One thread touches everything first: on a machine with several memory nodes it all lands on one. */
    if (!multiplication.pinned_first_touch)
        initialise_rows(&all, t, 0, size);

    double seconds;
    if (multiplication.own_threads) {
        double start = seconds_now();
        multiplication.multiply(&all);
        seconds = seconds_now() - start;
    } else {
        seconds = multiply_by_threads(&all, t);
    }

    double sum = checked_sum(&all, t);
    printf("size=%zu\nthreads=%zu\nmatrix_bytes=%zu\n", size, threads, 4 * bytes);
    if (multiplication.blocked)
        printf("block=%zu\n", block);
    printf("loop_seconds=%.6f\n", seconds);
    printf("rate_gflop_per_s=%.3f\n", 2e-9 * (double)size * (double)size * (double)size / seconds);
    printf("checksum=%.0f\nverified=yes\n", sum);
    free(a);
    free(b);
    free(c);
    free(t);
    return 0;
}
