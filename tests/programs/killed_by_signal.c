/* Kills itself by the signal --signal (default 15), after 10 ms of CPU. Exit code 1: that signal does not kill. */
#include "inline_work.h"
#include "known.h"

#include <signal.h>

int main(int argc, char **argv)
{
    long number = SIGTERM;
    known_options(argc, argv, &(struct known_option){"--signal", &number, 1, 64}, 1);
    volatile uint32_t result = 1;
    while (process_cpu_ns() < 10 * MEGA)
        result = inlined_work(result);
    /* A parent may have ignored it; the core file of a test helps nobody. */
    signal((int)number, SIG_DFL);
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    printf("signal=%ld\n", number);
    known_end();
    raise((int)number);
    return 1;
}
