/* --threads threads named holder-0, holder-1 ... each hold shared_lock --rounds times for --us microseconds, asleep.
   Between two rounds they do nothing, so at any time one of them sleeps and the others wait for the lock. own_lock is
   one per thread and never contended. */
#include "known.h"

#include <pthread.h>

enum { MAX_THREADS = 64 };

pthread_mutex_t shared_lock = PTHREAD_MUTEX_INITIALIZER;
static struct holder {
    pthread_t thread;
    pthread_mutex_t own_lock;
    int number;
} holders[MAX_THREADS];
static long rounds = 100, us = 1000;

SEPARATE void hold_lock(void)
{
    pthread_mutex_lock(&shared_lock);
    struct timespec time = {us / 1000000, us % 1000000 * 1000};
    nanosleep(&time, NULL);
    pthread_mutex_unlock(&shared_lock);
}

static void *run(void *argument)
{
    struct holder *holder = argument;
    char name[16];
    snprintf(name, sizeof name, "holder-%d", holder->number % 1000);
    pthread_setname_np(pthread_self(), name);
    for (long round = 0; round < rounds; round++) {
        pthread_mutex_lock(&holder->own_lock);
        hold_lock();
        pthread_mutex_unlock(&holder->own_lock);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    long threads = 2;
    const struct known_option options[] = {
        {"--threads", &threads, 1, MAX_THREADS}, {"--rounds", &rounds, 1, 1000000}, {"--us", &us, 1, 1000000}};
    known_options(argc, argv, options, 3);
    for (int n = 0; n < threads; n++) {
        holders[n].number = n;
        pthread_mutex_init(&holders[n].own_lock, NULL);
        errno = pthread_create(&holders[n].thread, NULL, run, &holders[n]);
        if (errno)
            known_impossible("start a thread");
    }
    for (int n = 0; n < threads; n++)
        pthread_join(holders[n].thread, NULL);
    printf("lock=shared_lock\nholder=hold_lock\n");
    known_end();
}
