/*
 * Burns --ms of CPU in calls of clock_gettime(CLOCK_MONOTONIC), which run in the vdso where the kernel's clock
 * source allows it (then ns_per_call is below about 100), and in the kernel otherwise.
 */
#include "known.h"

SEPARATE long ask_time_here(int64_t ns)
{
    long calls = 0;
    for (int64_t end = thread_cpu_ns() + ns; thread_cpu_ns() < end;)
        for (int n = 0; n < 10000; n++, calls++)
            known_clock(CLOCK_MONOTONIC);
    return calls;
}

int main(int argc, char **argv)
{
    int64_t ns = known_milliseconds(argc, argv, 200) * MEGA, before = thread_cpu_ns();
    long calls = ask_time_here(ns);
    int64_t spent = thread_cpu_ns() - before;
    printf("calls=%ld\nns_per_call=%.1f\n", calls, (double)spent / (double)(calls ? calls : 1));
    known_end();
    return 0;
}
