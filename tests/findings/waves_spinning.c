/* A wave equation by ten threads, whatever the machine has, which wait for each other by spinning: where there are
   fewer CPUs, those who run wait for those who cannot. 640 KiB, in the cache. Cause: more threads than CPUs. FIXED
   starts as many as there are CPUs: 8 to 10 times the speed. */
#include <sched.h>
#include "finding.h"

enum { MOST = 10, POINTS = 40960 };

static float waves[3][POINTS];
static int threads;
static double until;
static _Atomic int arrived, phase, over;
static long steps;

static void wait_for_all(void) {
    int now = phase;
    if (++arrived == threads) {
        steps++;
        if (seconds() >= until) over = 1;
        arrived = 0;
        phase = now + 1;
    } else
        while (phase == now) __builtin_ia32_pause();
}

static void *propagate(void *argument) {
    long self = (long)argument, first = self * POINTS / threads, last = (self + 1) * POINTS / threads;
    for (int step = 0; !over; step++) {
        float *before = waves[step % 3], *now = waves[(step + 1) % 3], *then = waves[(step + 2) % 3];
        for (long p = first + (first == 0); p < last - (last == POINTS); p++)
            then[p] = 2.f * now[p] - before[p] + 0.1f * (now[p - 1] - 2.f * now[p] + now[p + 1]);
        wait_for_all();
    }
    return NULL;
}

int main(int argc, char **argv) {
    until = limit_of(argc, argv);
    threads = MOST;
#ifdef FIXED
    threads = (int)sysconf(_SC_NPROCESSORS_ONLN);
#endif
    for (int p = 0; p < POINTS; p++) waves[0][p] = waves[1][p] = p > 100 && p < 200 ? 1.f : 0.f;
    pthread_t all[64];
    for (long t = 0; t < threads; t++) pthread_create(&all[t], NULL, propagate, (void *)t);
    for (int t = 0; t < threads; t++) pthread_join(all[t], NULL);
    keep(waves[0][150]);
    printf("%.1f steps/s\n", (double)steps / seconds());
    return 0;
}
