/* Ignores SIGINT (Ctrl-C) and burns --ms of CPU in spin_here. Prints ready=1 when the signal is ignored. */
#include "inline_work.h"
#include "known.h"

#include <signal.h>

SEPARATE uint32_t spin_here(int64_t end)
{
    uint32_t value = 1;
    while (thread_cpu_ns() < end)
        value = inlined_work(value);
    return value;
}

int main(int argc, char **argv)
{
    int64_t ns = known_milliseconds(argc, argv, 500) * MEGA;
    signal(SIGINT, SIG_IGN);
    printf("pid=%d\nready=1\n", (int)getpid());
    fflush(stdout);
    volatile uint32_t result = spin_here(ns);
    (void)result;
    known_end();
    return 0;
}
