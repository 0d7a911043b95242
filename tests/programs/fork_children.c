/* Forks --children processes that burn --ms of CPU each in child_work, waits, and prints what wait4 says of them. */
#include "inline_work.h"
#include "known.h"

#include <sys/wait.h>

static volatile uint32_t result;

SEPARATE void child_work(int64_t ns)
{
    while (process_cpu_ns() < ns)
        result = inlined_work(result);
}

int main(int argc, char **argv)
{
    long children = 3, ms = 100;
    const struct known_option options[] = {{"--children", &children, 1, 256}, {"--ms", &ms, 0, 3600000}};
    known_options(argc, argv, options, 2);
    for (long n = 0; n < children; n++) {
        pid_t child = fork();
        if (child < 0)
            known_impossible("fork");
        if (child == 0) {
            child_work((int64_t)ms * MEGA);
            _exit(0);
        }
    }
    printf("pid=%d\nchildren=%ld\n", (int)getpid(), children);
    long long total = 0;
    for (long n = 0; n < children; n++) {
        struct rusage usage;
        int status = 0;
        pid_t child = wait4(-1, &status, 0, &usage);
        if (child < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
            known_impossible("wait for a child that ends well");
        long long us = (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000ll + usage.ru_utime.tv_usec +
                       usage.ru_stime.tv_usec;
        printf("child_%ld_pid=%d\nchild_%ld_cpu_us=%lld\n", n, (int)child, n, us);
        total += us;
    }
    printf("children_cpu_us=%lld\n", total);
    known_end();
    return 0;
}
