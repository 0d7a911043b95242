/* --threads threads burn without end; after --ms of its own CPU one of them ends the whole process by _exit. */
#include "inline_work.h"
#include "known.h"

#include <pthread.h>

static volatile uint32_t result;
static long ms = 100;

SEPARATE void burn_until_killed(int64_t ns)
{
    while (thread_cpu_ns() < ns)
        result = inlined_work(1);
}

static void *run(void *quits)
{
    burn_until_killed(quits ? (int64_t)ms * MEGA : INT64_MAX);
    known_end();
    _exit(0);
}

int main(int argc, char **argv)
{
    long threads = 3;
    const struct known_option options[] = {{"--threads", &threads, 1, 256}, {"--ms", &ms, 0, 3600000}};
    known_options(argc, argv, options, 2);
    printf("threads=%ld\n", threads);
    for (long n = 0; n < threads; n++) {
        pthread_t thread;
        errno = pthread_create(&thread, NULL, run, n == threads - 1 ? &ms : NULL);
        if (errno)
            known_impossible("start a thread");
    }
    pthread_exit(NULL); /* the main thread is gone (a zombie) while the others run */
}
