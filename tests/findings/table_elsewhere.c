/* A thread of node 0 fills a table, one of node 1 sums it up again and again. */
#include "nodes.h"
static double limit;
static void *work(void *table) {
    stay_on(1);
    while (seconds() < limit) keep(sum(table));
    return NULL;
}
int main(int argc, char **argv) {
    limit = limit_of(argc, argv);
    stay_on(0);
    double *table = malloc(WORDS * sizeof *table);
    if (table == NULL) return 2;
    fill(table);
    limit += seconds();
    pthread_t thread;
    pthread_create(&thread, NULL, work, table);
    pthread_join(thread, NULL);
}
