/*
 * Execs itself --steps times in the middle of a computation that three other threads share: the kernel ends them and
 * unmaps everything, wherever they are. The sum travels in the arguments.
 */
#include "checked.h"

#include <pthread.h>

static uint64_t memory[1 << 15];

SEPARATE uint64_t compute(uint64_t sum)
{
    for (uint64_t n = 0; n < 1000000; n++)
        sum = sum_of(sum, memory[sum % (1 << 15)] + n);
    return sum;
}

static void *run(void *unused)
{
    (void)unused;
    for (volatile uint64_t sum = 1;;)
        sum = compute(sum);
    return NULL;
}

int main(int argc, char **argv)
{
    long steps = 60, sum = 1;
    const struct known_option options[] = {{"--steps", &steps, 0, 100000}, {"--sum", &sum, 0, INT64_MAX}};
    known_options(argc, argv, options, 2);
    for (int n = 0; n < 3 && steps > 0; n++) {
        pthread_t thread;
        if ((errno = pthread_create(&thread, NULL, run, NULL)))
            known_impossible("start a thread");
    }
    uint64_t found = compute((uint64_t)sum) >> 1; /* non-negative as a long */
    if (steps == 0)
        return checked_end(found, 1);
    char steps_text[24], sum_text[24];
    snprintf(steps_text, sizeof steps_text, "%ld", steps - 1);
    snprintf(sum_text, sizeof sum_text, "%llu", (unsigned long long)found);
    execl("/proc/self/exe", argv[0], "--steps", steps_text, "--sum", sum_text, (char *)NULL);
    known_impossible("exec itself");
}
