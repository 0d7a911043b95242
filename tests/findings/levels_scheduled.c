/* A sparse triangular solver on two threads: rows of a level need only rows of earlier levels, and the threads meet
   after each of 500 levels of 48 rows. Sixteen right-hand sides, one after the other. Cause: they meet too often.
   FIXED takes the right-hand sides together, level by level. Measured: 9 to 13 times the speed. */
#include "finding.h"

enum { Levels = 500, Rows = 48, Entries = 4, Sides = 16, Unknowns = Levels * Rows };

static struct row {
    unsigned column[Entries];
    float value[Entries], diagonal;
} rows[Unknowns];
static float solution[Sides][Unknowns];
static pthread_barrier_t level_done;
static double until;
static long solved;
static int over;

static void solve_row(unsigned r, float *x) {
    float sum = 1.f;
    for (int e = 0; e < Entries; e++) sum -= rows[r].value[e] * x[rows[r].column[e]];
    x[r] = sum * rows[r].diagonal;
}

static void solve_level(unsigned level, unsigned thread, int side) {
    unsigned first = level * Rows + thread * (Rows / 2);
    for (unsigned r = first; r < first + Rows / 2; r++) solve_row(r, solution[side]);
}

static void *work(void *argument) {
    unsigned thread = (unsigned)(uintptr_t)argument;
    while (!over) {
#ifdef FIXED
        for (unsigned level = 1; level < Levels; level++, pthread_barrier_wait(&level_done))
            for (int side = 0; side < Sides; side++) solve_level(level, thread, side);
#else
        for (int side = 0; side < Sides; side++)
            for (unsigned level = 1; level < Levels; level++, pthread_barrier_wait(&level_done))
                solve_level(level, thread, side);
#endif
        if (thread == 0) solved += Sides, over = seconds() > until;
        pthread_barrier_wait(&level_done);
    }
    return NULL;
}

int main(int argc, char **argv) {
    until = limit_of(argc, argv);
    uint64_t random = 6;
    for (unsigned r = Rows; r < Unknowns; r++) {
        rows[r].diagonal = .5f;
        for (int e = 0; e < Entries; e++) {
            rows[r].column[e] = (r / Rows - 1) * Rows + (unsigned)(next_random(&random) % Rows);
            rows[r].value[e] = .1f;
        }
    }
    pthread_t other;
    pthread_barrier_init(&level_done, NULL, 2);
    pthread_create(&other, NULL, work, (void *)1);
    work((void *)0);
    pthread_join(other, NULL);
    keep(solution[3][Unknowns - 1]);
    printf("%.2f million rows/s\n", (double)solved * Unknowns / 1e6 / seconds());
}
