/* Regions with known numbers and times, by fathom.h: each of --threads threads makes --rounds passes of `outer`; each has one
   `inner` of --us microseconds of work, and as much work of its own. Each outer pass begins --tiny empty regions `tiny`.
   --pause: the second half of the rounds lies in a pause, but for the last round. --open: `open` never ends. */
#include <pthread.h>

#include "../../include/fathom.h"
#include "inline_work.h"
#include "known.h"

static long thread_count = 1, rounds = 20, microseconds = 5000, tiny = 0, pauses = 0, is_open = 0;
static volatile uint32_t result;
static int64_t in_outer, in_inner;

SEPARATE static void work(void)
{
    int64_t end = thread_cpu_ns() + microseconds * 1000;
    while (thread_cpu_ns() < end)
        result = inlined_work(result);
}

static void *run(void *first)
{
    int64_t outer = 0, inner = 0;
    for (long round = 0; round < rounds; round++) {
        if (pauses && first && round == rounds / 2)
            fathom_pause();
        if (pauses && first && round == rounds - 1) {
            fathom_resume();
            fathom_mark("last round");
        }
        int64_t begin = known_clock(CLOCK_MONOTONIC);
        fathom_begin("outer");
        work();
        int64_t middle = known_clock(CLOCK_MONOTONIC);
        fathom_begin("inner");
        work();
        fathom_end();
        int64_t after = known_clock(CLOCK_MONOTONIC);
        for (long one = 0; one < tiny; one++) {
            fathom_begin("tiny");
            fathom_end();
        }
        fathom_end();
        outer += known_clock(CLOCK_MONOTONIC) - begin;
        inner += after - middle;
    }
    __atomic_add_fetch(&in_outer, outer, __ATOMIC_RELAXED);
    __atomic_add_fetch(&in_inner, inner, __ATOMIC_RELAXED);
    return NULL;
}

int main(int argc, char **argv)
{
    struct known_option options[] = {{"--threads", &thread_count, 1, 64}, {"--rounds", &rounds, 1, 1000000},
                                     {"--us", &microseconds, 0, 1000000}, {"--tiny", &tiny, 0, 100000000},
                                     {"--pause", &pauses, 1, 1},          {"--open", &is_open, 1, 1}};
    known_options(argc, argv, options, 6);
    if (is_open)
        fathom_begin("open");
    pthread_t threads[64];
    for (long thread = 1; thread < thread_count; thread++)
        if (pthread_create(&threads[thread], NULL, run, NULL) != 0)
            known_impossible("no more threads");
    run(&rounds);
    for (long thread = 1; thread < thread_count; thread++)
        pthread_join(threads[thread], NULL);
    printf("outer=%ld\ninner=%ld\ntiny=%ld\n", thread_count * rounds, thread_count * rounds, thread_count * rounds * tiny);
    printf("outer_ns=%lld\ninner_ns=%lld\n", (long long)in_outer, (long long)in_inner);
    known_end();
    return 0;
}
