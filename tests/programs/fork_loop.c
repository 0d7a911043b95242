/*
 * Forks --children children one after another while two threads compute; each child computes from memory that it
 * inherited and tells its result through a pipe. A child holds a copy of whatever a profiler left in the parent.
 */
#include "checked.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

static atomic_int over;
static uint64_t inherited[4096];

SEPARATE uint64_t compute(uint64_t sum, long steps)
{
    for (long n = 0; n < steps; n++)
        sum = sum_of(sum, inherited[(sum >> 9) % 4096]);
    return sum;
}

static void *run(void *argument)
{
    uint64_t *wrong = argument, expected = compute(3, 1000);
    while (!over)
        *wrong += compute(3, 1000) != expected;
    return NULL;
}

int main(int argc, char **argv)
{
    long children = 300;
    known_options(argc, argv, &(struct known_option){"--children", &children, 1, 100000}, 1);
    uint64_t state = 88172645463325252u, sum = 1, wrong[2] = {0, 0};
    for (int n = 0; n < 4096; n++)
        inherited[n] = next_random(&state);
    pthread_t threads[2];
    for (int n = 0; n < 2; n++)
        if ((errno = pthread_create(&threads[n], NULL, run, &wrong[n])))
            known_impossible("start a thread");
    int ends[2], failed = 0;
    if (pipe(ends) != 0)
        known_impossible("make a pipe");
    for (long n = 0; n < children; n++) {
        pid_t child = fork();
        if (child < 0)
            known_impossible("fork");
        if (child == 0) {
            uint64_t found = compute((uint64_t)n + 1, 100000);
            _exit(write(ends[1], &found, sizeof found) == sizeof found ? 0 : 1);
        }
        uint64_t found = 0;
        int status = -1;
        while (waitpid(child, &status, 0) < 0 && errno == EINTR)
            ;
        failed += status != 0;
        if (status == 0 && read(ends[0], &found, sizeof found) == sizeof found)
            sum = sum_of(sum, found);
    }
    over = 1;
    for (int n = 0; n < 2; n++)
        pthread_join(threads[n], NULL);
    printf("children=%ld\nfailed=%d\nwrong=%llu\n", children, failed, (unsigned long long)(wrong[0] + wrong[1]));
    return checked_end(sum, !failed && wrong[0] + wrong[1] == 0);
}
