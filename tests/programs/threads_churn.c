/* --threads threads are born and die one after another, at most four alive, each burning --us of CPU. */
#include "inline_work.h"
#include "known.h"

#include <pthread.h>
#include <stdatomic.h>

enum { ALIVE = 4 };

static long us = 500;
static _Atomic int64_t spent;
static _Atomic long ended;

SEPARATE uint32_t churn_work(int64_t ns)
{
    uint32_t value = 1;
    while (thread_cpu_ns() < ns)
        value = inlined_work(value);
    return value;
}

static void *run(void *unused)
{
    (void)unused;
    volatile uint32_t result = churn_work((int64_t)us * 1000);
    (void)result;
    spent += thread_cpu_ns();
    ended++;
    return NULL;
}

int main(int argc, char **argv)
{
    long threads = 200;
    const struct known_option options[] = {{"--threads", &threads, 1, 100000}, {"--us", &us, 0, 1000000}};
    known_options(argc, argv, options, 2);
    pthread_t alive[ALIVE];
    for (long n = 0; n < threads + ALIVE; n++) {
        if (n >= ALIVE && n - ALIVE < threads)
            pthread_join(alive[n % ALIVE], NULL);
        if (n >= threads)
            continue;
        errno = pthread_create(&alive[n % ALIVE], NULL, run, NULL);
        if (errno)
            known_impossible("start a thread");
    }
    printf("threads=%ld\nthreads_cpu_ns=%lld\n", (long)ended, (long long)spent);
    known_end();
    return 0;
}
