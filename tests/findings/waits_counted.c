/* Loops that load one place on purpose: until a time that a handler of signals moves on, with bytes stored meanwhile. What is
   loaded again costs nothing beside the arithmetic between. */
#include "finding.h"
#include <signal.h>
#include <sys/time.h>

static volatile sig_atomic_t ticks;

static void tick(int number) {
    (void)number;
    ticks++;
}

__attribute__((noinline)) static double until(int last, uint8_t *marks) {
    double x = 1.0;
    for (size_t i = 0; ticks < last; i++) {
        x = x / 1.0000001 + 1e-9;
        marks[i & 4095] = (uint8_t)i;
    }
    return x;
}

int main(int argc, char **argv) {
    double limit = limit_of(argc, argv);
    signal(SIGALRM, tick);
    struct itimerval every = {{0, 10000}, {0, 10000}};
    setitimer(ITIMER_REAL, &every, NULL);
    uint8_t *marks = huge(4096);
    while (seconds() < limit) keep(until(ticks + 5, marks));
}
