/* Starts a thread, waits for it, and starts the next, which has less to do. */
#include "finding.h"
static void *work(void *steps) {
    double x = 1.0;
    for (size_t i = 0; i < (size_t)steps; i++) x = x / 1.0000001 + 1e-9;
    keep(x);
    return NULL;
}
int main(int argc, char **argv) {
    size_t steps = (size_t)(limit_of(argc, argv) * 1e8);
    for (size_t t = 1; t <= 4; t++) {
        pthread_t thread;
        pthread_create(&thread, NULL, work, (void *)(steps / t));
        pthread_join(thread, NULL);
    }
}
