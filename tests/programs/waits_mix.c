/* One thread per way to wait, each --rounds times for --us microseconds: "sleeps" in nanosleep, "reads" in read from a
   pipe into which "writes" puts a byte after each of its sleeps, "polls" in poll, "conditions" in pthread_cond_timedwait
   at `condition`; and the main thread in pthread_join. None uses a CPU worth speaking of. */
#include "known.h"

#include <poll.h>
#include <pthread.h>

static long rounds = 100, us = 1000;
static int pipe_ends[2];
pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static struct timespec pause_time(void)
{
    return (struct timespec){us / 1000000, us % 1000000 * 1000};
}

SEPARATE void sleeps(void)
{
    struct timespec time = pause_time();
    nanosleep(&time, NULL);
}

SEPARATE void writes(void)
{
    sleeps();
    if (write(pipe_ends[1], "x", 1) != 1)
        known_impossible("write to a pipe");
}

SEPARATE void reads(void)
{
    char byte;
    if (read(pipe_ends[0], &byte, 1) != 1)
        known_impossible("read from a pipe");
}

SEPARATE void polls(void)
{
    poll(NULL, 0, (int)(us / 1000 ? us / 1000 : 1));
}

SEPARATE void conditions(void)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += us * 1000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&mutex);
    pthread_cond_timedwait(&condition, &mutex, &until);
    pthread_mutex_unlock(&mutex);
}

static const struct way {
    const char *name;
    void (*wait)(void);
} ways[] = {{"sleeps", sleeps}, {"writes", writes}, {"reads", reads}, {"polls", polls}, {"conditions", conditions}};

static void *run(void *argument)
{
    const struct way *way = argument;
    pthread_setname_np(pthread_self(), way->name);
    for (long round = 0; round < rounds; round++)
        way->wait();
    return NULL;
}

int main(int argc, char **argv)
{
    enum { WAYS = sizeof ways / sizeof *ways };
    pthread_t threads[WAYS];
    const struct known_option options[] = {{"--rounds", &rounds, 1, 1000000}, {"--us", &us, 1, 900000}};
    known_options(argc, argv, options, 2);
    if (pipe(pipe_ends))
        known_impossible("make a pipe");
    for (int n = 0; n < WAYS; n++) {
        errno = pthread_create(&threads[n], NULL, run, (void *)&ways[n]);
        if (errno)
            known_impossible("start a thread");
    }
    for (int n = 0; n < WAYS; n++)
        pthread_join(threads[n], NULL);
    printf("threads=%d\n", WAYS + 1);
    known_end();
}
