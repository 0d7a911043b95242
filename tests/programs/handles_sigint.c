/* Counts SIGINT (Ctrl-C) while it burns CPU in spin_here; ends after --stop-after of them or after --ms of CPU. */
#include "inline_work.h"
#include "known.h"

#include <signal.h>

static volatile sig_atomic_t seen;
static long stop_after = 1000000;

static void on_sigint(int number) { (void)number, seen++; }

SEPARATE uint32_t spin_here(int64_t end)
{
    uint32_t value = 1;
    while (thread_cpu_ns() < end && seen < stop_after)
        value = inlined_work(value);
    return value;
}

int main(int argc, char **argv)
{
    long ms = 500;
    const struct known_option options[] = {{"--ms", &ms, 0, 3600000}, {"--stop-after", &stop_after, 1, 1000000}};
    known_options(argc, argv, options, 2);
    struct sigaction action = {.sa_handler = on_sigint};
    sigaction(SIGINT, &action, NULL);
    printf("pid=%d\nready=1\n", (int)getpid());
    fflush(stdout);
    volatile uint32_t result = spin_here((int64_t)ms * MEGA);
    (void)result;
    printf("sigint_count=%ld\n", (long)seen);
    known_end();
    return 0;
}
