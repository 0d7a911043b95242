/*
 * Recipe R1: what both variants of the persistent-memory triad share: arguments, the pool, the check.
 * The including file defines `triad` and then calls `run_triad` from its main.
 *
 * Memory: three int arrays of --elements in one pool file. The article uses 82955000 elements (1.0 GB of
 * arrays in a 16.2 GB pool); the default of 20000000 (240 MB) takes seconds on a 2-core machine. For a
 * statement about DRAM the three arrays should be several times the last-level cache.
 *
 * Traffic: one iteration reads a[i] and b[i] and writes c[i]: 12 bytes, which is how the rate is counted.
 * A processor that fetches a line before it writes it moves 16 bytes, so that DRAM counters show 4/3 of it.
 */
#ifndef RECIPES_PMDK_TRIAD_H
#define RECIPES_PMDK_TRIAD_H

#include "common.h"

#include <fcntl.h>
#include <libpmemobj.h>
#include <omp.h>
#include <signal.h>
#include <unistd.h>

POBJ_LAYOUT_BEGIN(triad);
POBJ_LAYOUT_TOID(triad, int);
POBJ_LAYOUT_END(triad);

typedef void triad_loop(TOID(int) a, TOID(int) b, TOID(int) c, size_t elements);

static char pool_path[4096];
static volatile sig_atomic_t pool_file_is_ours;

static void remove_pool(void)
{
    if (pool_file_is_ours)
        unlink(pool_path);
    pool_file_is_ours = 0;
}

/* Ctrl-C must not leave a gigabyte in /dev/shm: remove the file, then die of the same signal. */
static void remove_pool_and_die(int signal_number)
{
    remove_pool();
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

/* Creates the pool file, refusing one that exists, with all its blocks (a hole would be SIGBUS later). */
static PMEMobjpool *create_pool(size_t bytes)
{
    atexit(remove_pool);
    const int deadly_signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    for (size_t index = 0; index < sizeof deadly_signals / sizeof *deadly_signals; index++)
        signal(deadly_signals[index], remove_pool_and_die);
    int file = open(pool_path, O_CREAT | O_EXCL | O_RDWR, 0600);
    if (file < 0)
        fail("cannot create the pool file %s: %s; name another one with --pool", pool_path, strerror(errno));
    pool_file_is_ours = 1;
    int problem = posix_fallocate(file, 0, (off_t)bytes);
    close(file);
    if (problem != 0)
        fail("the pool file %s needs %zu bytes: %s; lower --elements or put --pool on a larger file system",
             pool_path, bytes, strerror(problem));
    /* Size 0: take the file as it is. */
    PMEMobjpool *pool = pmemobj_create(pool_path, POBJ_LAYOUT_NAME(triad), 0, 0600);
    if (!pool)
        fail("libpmemobj cannot make a pool of %s: %s", pool_path, pmemobj_errormsg());
    return pool;
}

static void allocate(PMEMobjpool *pool, TOID(int) *array, size_t bytes)
{
    if (POBJ_ALLOC(pool, array, int, bytes, NULL, NULL) != 0)
        fail("libpmemobj cannot allocate %zu bytes in the pool: %s", bytes, pmemobj_errormsg());
}

/* Values small enough that 3 * a + b never overflows an int. */
static int value_of_a(size_t index) { return (int)(index % 1000); }
static int value_of_b(size_t index) { return (int)(index % 777); }

static void initialise(PMEMobjpool *pool, int *a, int *b, int *c, size_t elements)
{
#pragma omp parallel for
    for (size_t i = 0; i < elements; i++) {
        a[i] = value_of_a(i);
        b[i] = value_of_b(i);
        c[i] = 0;
    }
    pmemobj_persist(pool, a, elements * sizeof *a);
    pmemobj_persist(pool, b, elements * sizeof *b);
    pmemobj_persist(pool, c, elements * sizeof *c);
}

/* The sum over c; ends the program when one element is wrong. */
static long long checksum_of(const int *c, size_t elements)
{
    long long sum = 0;
    for (size_t i = 0; i < elements; i++) {
        if (c[i] != 3 * value_of_a(i) + value_of_b(i))
            fail("c[%zu] is %d, it should be %d", i, c[i], 3 * value_of_a(i) + value_of_b(i));
        sum += c[i];
    }
    return sum;
}

static int run_triad(int argc, char **argv, const char *summary, triad_loop *triad)
{
    size_t elements = 20000000, repeat = 32;
    const char *path = NULL;
    const struct argument table[] = {
        {"--elements", "ints per array; the article has 82955000", &elements, 1, 4000000000, NULL},
        {"--repeat", "how often the loop runs", &repeat, 1, 1000000, NULL},
        {"--pool", "pool file to create and to remove; default /dev/shm/pmdk_triad.PID", NULL, 0, 0, &path},
    };
    read_arguments(argc, argv, summary, table, sizeof table / sizeof *table);
    int length = path ? snprintf(pool_path, sizeof pool_path, "%s", path)
                      : snprintf(pool_path, sizeof pool_path, "/dev/shm/pmdk_triad.%d", (int)getpid());
    if (length >= (int)sizeof pool_path)
        fail("the path after --pool has %d bytes, %zu are the limit", length, sizeof pool_path - 1);

    /* The library's heap hands out chunks of 256 KiB; 32 MiB hold its logs and headers. */
    const size_t chunk = 256 << 10, bytes = elements * sizeof(int);
    PMEMobjpool *pool = create_pool(3 * ((bytes / chunk + 2) * chunk) + (32 << 20));
    TOID(int) a, b, c;
    allocate(pool, &a, bytes);
    allocate(pool, &b, bytes);
    allocate(pool, &c, bytes);
    initialise(pool, D_RW(a), D_RW(b), D_RW(c), elements);

    double start = seconds_now();
    for (size_t round = 0; round < repeat; round++)
        triad(a, b, c, elements);
    double seconds = seconds_now() - start;

    long long sum = checksum_of(D_RO(c), elements);
    pmemobj_close(pool);
    printf("elements=%zu\nrepeat=%zu\nthreads=%d\narray_bytes=%zu\n", elements, repeat, omp_get_max_threads(), bytes);
    printf("loop_seconds=%.6f\n", seconds);
    printf("rate_gb_per_s=%.3f\n", 12e-9 * (double)elements * (double)repeat / seconds);
    printf("checksum=%lld\nverified=yes\n", sum);
    return 0;
}

#endif
