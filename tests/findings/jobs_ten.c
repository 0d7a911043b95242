/* Ten threads multiply small matrices. */
#include "finding.h"
static double limit;
static void *work(void *unused) {
    double a[16][16] = {{1.0}}, b[16][16] = {{2.0}}, c[16][16] = {{0.0}};
    while (seconds() < limit)
        for (int round = 0; round < 100; round++)
            for (int i = 0; i < 16; i++)
                for (int j = 0; j < 16; j++)
                    for (int k = 0; k < 16; k++) c[i][j] += a[i][k] * b[k][j];
    keep(c[3][3]);
    return unused;
}
int main(int argc, char **argv) {
    limit = limit_of(argc, argv);
    pthread_t threads[10];
    for (size_t t = 0; t < 10; t++) pthread_create(&threads[t], NULL, work, NULL);
    for (size_t t = 0; t < 10; t++) pthread_join(threads[t], NULL);
}
