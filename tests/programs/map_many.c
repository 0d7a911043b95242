/*
 * Maps a page and unmaps it, so often that no profiler can keep a record of each call: the calls are counted.
 */
#include "known.h"

#include <sys/mman.h>

SEPARATE static char *map_one(void)
{
    char *at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

int main(int argc, char **argv)
{
    long rounds = 20000;
    const struct known_option options[] = {{"--rounds", &rounds, 1, 10 * MEGA}};
    known_options(argc, argv, options, 1);
    for (long round = 0; round < rounds; round++) {
        char *at = map_one();
        if (!at || munmap(at, PAGE)) {
            fprintf(stderr, "cannot map memory here: %s\n", strerror(errno));
            return 1;
        }
    }
    printf("rounds=%ld\n", rounds);
    puts("EXIT-SUCCESS");
    return 0;
}
