/* Pairs of threads hand a byte to and fro through two pipes, --rounds times each way: two switches of threads a round, and
   more than 100,000 a second on one CPU. --pin 1 keeps each pair on one CPU, so that every hand-over is a switch. */
#include "known.h"

#include <pthread.h>
#include <sched.h>

enum { MAX_PAIRS = 32 };

static long rounds = 100000, pin = 1;
static struct side {
    pthread_t thread;
    int from, to, cpu;
} sides[2 * MAX_PAIRS];

SEPARATE void hand_over(const struct side *side)
{
    char byte = 'x';
    if (write(side->to, &byte, 1) != 1)
        known_impossible("write to a pipe");
}

SEPARATE void take_over(const struct side *side)
{
    char byte;
    if (read(side->from, &byte, 1) != 1)
        known_impossible("read from a pipe");
}

static void *run(void *argument)
{
    const struct side *side = argument;
    if (pin) {
        cpu_set_t cpus;
        CPU_ZERO(&cpus);
        CPU_SET(side->cpu, &cpus);
        sched_setaffinity(0, sizeof cpus, &cpus);
    }
    int first = (side - sides) % 2 == 0;
    for (long round = 0; round < rounds; round++) {
        if (first)
            hand_over(side);
        take_over(side);
        if (!first)
            hand_over(side);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    long pairs = 1;
    const struct known_option options[] = {
        {"--pairs", &pairs, 1, MAX_PAIRS}, {"--rounds", &rounds, 1, 100000000}, {"--pin", &pin, 0, 1}};
    known_options(argc, argv, options, 3);
    int cpus = (int)sysconf(_SC_NPROCESSORS_ONLN);
    for (int pair = 0; pair < pairs; pair++) {
        int there[2], back[2];
        if (pipe(there) || pipe(back))
            known_impossible("make a pipe");
        sides[2 * pair] = (struct side){.from = back[0], .to = there[1], .cpu = pair % cpus};
        sides[2 * pair + 1] = (struct side){.from = there[0], .to = back[1], .cpu = pair % cpus};
    }
    int64_t start = known_clock(CLOCK_MONOTONIC);
    for (int n = 0; n < 2 * pairs; n++) {
        errno = pthread_create(&sides[n].thread, NULL, run, &sides[n]);
        if (errno)
            known_impossible("start a thread");
    }
    for (int n = 0; n < 2 * pairs; n++)
        pthread_join(sides[n].thread, NULL);
    int64_t ns = known_clock(CLOCK_MONOTONIC) - start;
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("elapsed_ns=%lld\nswitches=%ld\n", (long long)ns, usage.ru_nvcsw + usage.ru_nivcsw);
    known_end();
}
