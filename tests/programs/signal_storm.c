/*
 * Computes under a storm of signals: SIGPROF from an interval timer (count depends on the kernel's tick) and SIGUSR1
 * that it sends to itself, --count times: each must be handled, and the result must be what it is without signals.
 */
#include "inline_work.h"
#include "known.h"

#include <signal.h>
#include <sys/time.h>

static volatile sig_atomic_t handled_usr1, handled_prof;

static void on_usr1(int number) { (void)number, handled_usr1++; }
static void on_prof(int number) { (void)number, handled_prof++; }

SEPARATE uint32_t storm_work(uint32_t value) { return inlined_work(value); }

int main(int argc, char **argv)
{
    long count = 5000;
    known_options(argc, argv, &(struct known_option){"--count", &count, 1, 10000000}, 1);
    uint32_t expected = 1, found = 1;
    for (long n = 0; n < count; n++)
        expected = storm_work(expected);
    struct sigaction usr1 = {.sa_handler = on_usr1}, prof = {.sa_handler = on_prof, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &usr1, NULL);
    sigaction(SIGPROF, &prof, NULL);
    struct itimerval every_ms = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_PROF, &every_ms, NULL);
    for (long n = 0; n < count; n++) {
        found = storm_work(found);
        raise(SIGUSR1);
    }
    setitimer(ITIMER_PROF, &never, NULL);
    printf("usr1_sent=%ld\nusr1_handled=%ld\nprof_handled=%ld\n", count, (long)handled_usr1, (long)handled_prof);
    printf("result_correct=%s\n", expected == found ? "yes" : "no");
    known_end();
    return expected == found && handled_usr1 == count ? 0 : 1;
}
