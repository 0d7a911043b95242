/* Eight threads that compute, on however few CPUs. */
#include "finding.h"
static double limit;
static void *work(void *unused) {
    double x = 1.0;
    while (seconds() < limit)
        for (int i = 0; i < 1 << 20; i++) x = x * 1.0000001 + 1e-9;
    keep(x);
    return unused;
}
int main(int argc, char **argv) {
    limit = limit_of(argc, argv);
    pthread_t threads[8];
    for (size_t t = 0; t < 8; t++) pthread_create(&threads[t], NULL, work, NULL);
    for (size_t t = 0; t < 8; t++) pthread_join(threads[t], NULL);
}
