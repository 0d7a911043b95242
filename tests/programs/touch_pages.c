/*
 * Writes one byte to each of --pages fresh 4 KB pages in touch_here, --rounds times; touch_minor_faults is its
 * own count, loop_seconds what all rounds took by the clock.
 */
#include "known.h"

#include <sys/mman.h>

SEPARATE void touch_here(volatile char *start, long pages)
{
    for (long page = 0; page < pages; page++)
        start[page * PAGE] = 1;
}

int main(int argc, char **argv)
{
    long pages = 10000, rounds = 1;
    const struct known_option options[] = {{"--pages", &pages, 1, 1l << 30}, {"--rounds", &rounds, 1, 1000000}};
    known_options(argc, argv, options, 2);
    long faults = 0;
    int64_t begin = known_clock(CLOCK_MONOTONIC);
    for (long round = 0; round < rounds; round++) {
        size_t bytes = (size_t)pages * PAGE;
        char *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (start == MAP_FAILED)
            known_impossible("map the pages");
        madvise(start, bytes, MADV_NOHUGEPAGE); /* fails where there are no huge pages: fine */
        long before = known_faults_now().minor;
        touch_here(start, pages);
        faults += known_faults_now().minor - before;
        if (round == rounds - 1)
            printf("first_address=0x%lx\n", (unsigned long)start);
        munmap(start, bytes);
    }
    double seconds = (double)(known_clock(CLOCK_MONOTONIC) - begin) * 1e-9;
    printf("pages=%ld\nrounds=%ld\ntouch_minor_faults=%ld\nloop_seconds=%.6f\n", pages, rounds, faults, seconds);
    known_end();
    return 0;
}
