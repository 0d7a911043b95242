/* --threads threads named worker-0, worker-1 ... each burn --ms of CPU in thread_work. */
#include "inline_work.h"
#include "known.h"

#include <pthread.h>
#include <sys/syscall.h>

enum { MAX_THREADS = 256 };

static struct worker {
    pthread_t thread;
    int number;
    long tid;
    int64_t ns, spent;
} workers[MAX_THREADS];

SEPARATE uint32_t thread_work(int64_t ns)
{
    uint32_t value = 1;
    while (thread_cpu_ns() < ns)
        value = inlined_work(value);
    return value;
}

static void *run(void *argument)
{
    struct worker *worker = argument;
    char name[16];
    snprintf(name, sizeof name, "worker-%d", worker->number % 1000);
    pthread_setname_np(pthread_self(), name);
    worker->tid = syscall(SYS_gettid);
    volatile uint32_t result = thread_work(worker->ns);
    (void)result;
    worker->spent = thread_cpu_ns();
    return NULL;
}

int main(int argc, char **argv)
{
    long threads = 4, ms = 100;
    const struct known_option options[] = {{"--threads", &threads, 1, MAX_THREADS}, {"--ms", &ms, 0, 3600000}};
    known_options(argc, argv, options, 2);
    for (int n = 0; n < threads; n++) {
        workers[n].number = n;
        workers[n].ns = (int64_t)ms * MEGA;
        errno = pthread_create(&workers[n].thread, NULL, run, &workers[n]);
        if (errno)
            known_impossible("start a thread");
    }
    for (int n = 0; n < threads; n++)
        pthread_join(workers[n].thread, NULL);
    printf("threads=%ld\npid=%d\n", threads, (int)getpid());
    for (int n = 0; n < threads; n++)
        printf("worker-%d_tid=%ld\nworker-%d_cpu_ns=%lld\n", n, workers[n].tid, n, (long long)workers[n].spent);
    known_end();
    return 0;
}
