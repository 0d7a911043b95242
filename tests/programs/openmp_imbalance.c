/* A parallel loop of --iterations with static schedule, --rounds times: the thread with the number t does t + 1 units of
   --us microseconds of CPU time in unit_of_work, and the others wait for the last one at the barrier of the loop. Printed
   is what they used: where the host takes the virtual CPU away unseen, a unit takes longer by that. */
#include "inline_work.h"
#include "known.h"

#include <omp.h>

SEPARATE uint32_t unit_of_work(int64_t ns)
{
    uint32_t value = 1;
    for (int64_t end = thread_cpu_ns() + ns; thread_cpu_ns() < end;)
        value = inlined_work(value);
    return value;
}

int main(int argc, char **argv)
{
    long threads = 4, rounds = 20, us = 2000;
    const struct known_option options[] = {
        {"--threads", &threads, 1, 64}, {"--rounds", &rounds, 1, 100000}, {"--us", &us, 1, 1000000}};
    known_options(argc, argv, options, 3);
    volatile uint32_t result = 0;
    int64_t used[64] = {0};
    for (long round = 0; round < rounds; round++)
#pragma omp parallel for schedule(static, 1) num_threads((int)threads)
        for (long t = 0; t < threads; t++) {
            int64_t begun = thread_cpu_ns();
            for (long unit = 0; unit <= t; unit++)
                result = unit_of_work(us * 1000);
            used[t] += thread_cpu_ns() - begun;
        }
    (void)result;
    int64_t most = 0, sum = 0;
    for (long t = 0; t < threads; t++) {
        most = used[t] > most ? used[t] : most;
        sum += used[t];
    }
    /* Undisturbed: the last one does `threads` units, the mean is (threads + 1) / 2. */
    printf("threads=%ld\nmost_over_mean=%.3f\n", threads, (double)most * (double)threads / (double)sum);
    known_end();
}
