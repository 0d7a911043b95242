/* Particles in cells: two threads own half of the cells each, but the matter has gathered in the first half, which
   holds seven eighths of the particles; after each step they meet at a barrier. 1 MB per step, in the cache. Cause:
   unequal work. FIXED divides the cells by their particles: 1.6 times the speed. */
#include <math.h>
#include "finding.h"

enum { CELLS = 1024, PARTICLES = 16384, THREADS = 2 };

struct particle {
    float x, v;
};
static struct {
    struct particle of[PARTICLES];
    int start[CELLS + 1];
    float field[CELLS];
} mesh;
static pthread_barrier_t step_done;
static double until;
static int over;
static long steps;

static void move(int cell) {
    for (int p = mesh.start[cell]; p < mesh.start[cell + 1]; p++) {
        struct particle *one = &mesh.of[p];
        for (int sub = 0; sub < 8; sub++) {
            one->v += mesh.field[cell] * 1e-6f - sqrtf(1.f + one->x * one->x) * 1e-7f;
            one->x += one->v * 1e-6f;
        }
    }
}

static void *thread_of(void *argument) {
    long self = (long)argument;
    int first = 0, last = CELLS;
#ifdef FIXED
    int middle = 0;
    while (mesh.start[middle] < PARTICLES / 2) middle++;
#else
    int middle = CELLS / 2;
#endif
    if (self == 0) last = middle;
    else first = middle;
    for (;;) {
        for (int cell = first; cell < last; cell++) move(cell);
        if (pthread_barrier_wait(&step_done) == PTHREAD_BARRIER_SERIAL_THREAD) {
            steps++;
            over = seconds() >= until;
        }
        pthread_barrier_wait(&step_done);
        if (over) return NULL;
    }
}

int main(int argc, char **argv) {
    until = limit_of(argc, argv);
    for (int cell = 0; cell < CELLS; cell++) {
        mesh.start[cell + 1] = mesh.start[cell] + (cell < CELLS / 2 ? 28 : 4);
        mesh.field[cell] = (float)cell * 0.01f;
    }
    pthread_barrier_init(&step_done, NULL, THREADS);
    pthread_t threads[THREADS];
    for (long t = 0; t < THREADS; t++) pthread_create(&threads[t], NULL, thread_of, (void *)t);
    for (int t = 0; t < THREADS; t++) pthread_join(threads[t], NULL);
    keep(mesh.of[77].x);
    printf("%.1f steps/s\n", (double)steps / until);
    return 0;
}
