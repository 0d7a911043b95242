/* Two threads take items from a queue under its lock. A program says for how many seconds of CPU time a thread then works
   while it holds the lock (WORK_INSIDE) and when it has left it (WORK_OUTSIDE). */
#pragma once
#include "finding.h"

static pthread_mutex_t queue = PTHREAD_MUTEX_INITIALIZER;
static uint64_t items;
static double limit;

static void *work(void *unused) {
    while (seconds() < limit) {
        pthread_mutex_lock(&queue);
        items++;
        /* No time at all would still be some 50 us of computing. */
        if (WORK_INSIDE > 0.0) compute_for(WORK_INSIDE);
        pthread_mutex_unlock(&queue);
        compute_for(WORK_OUTSIDE);
    }
    return unused;
}

int main(int argc, char **argv) {
    limit = limit_of(argc, argv);
    pthread_t threads[2];
    for (size_t t = 0; t < 2; t++) pthread_create(&threads[t], NULL, work, NULL);
    for (size_t t = 0; t < 2; t++) pthread_join(threads[t], NULL);
}
