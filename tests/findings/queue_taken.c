/* Two threads take items from a queue under its lock, and work on each when they have left it. */
#include "finding.h"
static pthread_mutex_t queue = PTHREAD_MUTEX_INITIALIZER;
static uint64_t items;
static double limit;
static void *work(void *unused) {
    while (seconds() < limit) {
        pthread_mutex_lock(&queue);
        items++;
        pthread_mutex_unlock(&queue);
        compute_for(2.5e-3);
    }
    return unused;
}
int main(int argc, char **argv) {
    limit = limit_of(argc, argv);
    pthread_t threads[2];
    for (size_t t = 0; t < 2; t++) pthread_create(&threads[t], NULL, work, NULL);
    for (size_t t = 0; t < 2; t++) pthread_join(threads[t], NULL);
}
