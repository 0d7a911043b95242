/*
 * With a limit of --megabytes (1000) of address space, works for --ms (300), then maps as many megabytes as it gets: mapped=N. It sets
 * the limit and executes itself, as a shell with `ulimit -v` would.
 */
#include "known.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    long megabytes = 1000, milliseconds = 300;
    known_options(argc, argv,
                  (struct known_option[]){{"--megabytes", &megabytes, 1, 1000000}, {"--ms", &milliseconds, 0, 1000000}}, 2);
    struct rlimit limit;
    getrlimit(RLIMIT_AS, &limit);
    if (limit.rlim_cur == RLIM_INFINITY) {
        limit.rlim_cur = limit.rlim_max = (rlim_t)megabytes << 20;
        if (!setrlimit(RLIMIT_AS, &limit))
            execv("/proc/self/exe", argv);
        return 1;
    }
    volatile uint32_t value = 1;
    for (int64_t end = thread_cpu_ns() + milliseconds * MEGA; thread_cpu_ns() < end;)
        for (int n = 0; n < 100000; n++)
            value = value * 1664525 + 1013904223;
    long mapped = 0;
    while (mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED)
        mapped++;
    printf("mapped=%ld\n", mapped);
    known_end();
    return 0;
}
