/*
 * vfork and exec of itself, --children times, computing between: the child of a vfork runs in its parent's memory
 * until it execs, so what is restored for one must not be restored twice. The child's result is its exit code.
 */
#include "checked.h"

#include <sys/wait.h>

SEPARATE uint64_t compute(uint64_t sum)
{
    for (uint64_t n = 0; n < 200000; n++)
        sum = sum_of(sum, n);
    return sum;
}

int main(int argc, char **argv)
{
    long children = 200, child_number = -1;
    const struct known_option options[] = {{"--children", &children, 1, 100000}, {"--child", &child_number, 0, 100000}};
    known_options(argc, argv, options, 2);
    if (child_number >= 0)
        return (int)(compute((uint64_t)child_number) & 127);
    uint64_t sum = 1, failed = 0;
    for (long n = 0; n < children; n++) {
        char text[24];
        snprintf(text, sizeof text, "%ld", n);
        pid_t child = vfork();
        if (child == 0) {
            execl("/proc/self/exe", argv[0], "--child", text, (char *)NULL);
            _exit(255);
        }
        int status = -1;
        sum = compute(sum);
        if (child < 0 || waitpid(child, &status, 0) != child)
            known_impossible("vfork and wait");
        failed += !WIFEXITED(status) || WEXITSTATUS(status) != (int)(compute((uint64_t)n) & 127);
    }
    printf("children=%ld\nfailed=%llu\n", children, (unsigned long long)failed);
    return checked_end(sum, failed == 0);
}
