/* Near-miss of load-imbalance and true-sharing: jobs differ in length by a factor of sixteen, and two threads draw them
   from one counter; so both are done at nearly the same time, and the counter is touched once in some 50 microseconds.
   A job iterates the logistic map, in registers. */
#include "finding.h"

enum { JOBS = 2000 };

struct job { double start; int steps; };
struct pool { struct job jobs[JOBS]; uint32_t next; double limit, sums[2][16]; };
struct thread { struct pool *pool; int me; };

static double iterate(const struct job *job) {
    double x = job->start;
    for (int i = 0; i < job->steps; i++) x = 3.9 * x * (1.0 - x);
    return x;
}

static void *work(void *argument) {
    struct thread *self = argument;
    struct pool *pool = self->pool;
    double sum = 0.0;
    for (uint32_t at; seconds() < pool->limit;) {
        at = __atomic_fetch_add(&pool->next, 1, __ATOMIC_RELAXED);
        sum += iterate(&pool->jobs[at % JOBS]);
    }
    pool->sums[self->me][0] = sum;
    return NULL;
}

int main(int argc, char **argv) {
    static struct pool pool;
    pool.limit = limit_of(argc, argv);
    for (int i = 0; i < JOBS; i++) pool.jobs[i] = (struct job){0.1 + 0.0004 * i, 1000 << (i * 7 % 5)};
    struct thread selves[2] = {{&pool, 0}, {&pool, 1}};
    pthread_t threads[2];
    for (int t = 0; t < 2; t++)
        if (pthread_create(&threads[t], NULL, work, &selves[t])) return 2;
    for (int t = 0; t < 2; t++) pthread_join(threads[t], NULL);
    printf("%u rounds, %g\n", pool.next, pool.sums[0][0] + pool.sums[1][0]);
    return 0;
}
