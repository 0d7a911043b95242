/* Sleeps --ms in naps of 10 ms (in nap_here) and uses next to no CPU. */
#include "known.h"

SEPARATE void nap_here(void)
{
    struct timespec nap = {0, 10 * MEGA};
    nanosleep(&nap, NULL);
}

int main(int argc, char **argv)
{
    int64_t ns = known_milliseconds(argc, argv, 500) * MEGA, start = known_clock(CLOCK_MONOTONIC);
    long naps = 0;
    for (; known_clock(CLOCK_MONOTONIC) < start + ns; naps++)
        nap_here();
    printf("naps=%ld\nelapsed_ns=%lld\n", naps, (long long)(known_clock(CLOCK_MONOTONIC) - start));
    known_end();
    return 0;
}
