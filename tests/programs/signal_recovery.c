/*
 * Computes under a timer that sends SIGALRM at 10 kHz, and lives from its own signals: SIGSEGV left by siglongjmp,
 * SIGSEGV cured by mprotect and run again, SIGTRAP by raise and by int3. Each must reach its handler exactly as often
 * as it was caused. How many SIGALRM arrive depends on the machine and is not printed.
 */
#include "checked.h"

#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>

static sigjmp_buf back;
static volatile sig_atomic_t escape, alarms;
static volatile long segments, traps, wrong_address;
static char *page;

static void on_alarm(int number) { (void)number, alarms++; }
static void on_trap(int number) { (void)number, traps++; }

static void on_segment(int number, siginfo_t *info, void *context)
{
    (void)number, (void)context;
    segments++;
    wrong_address += info->si_addr != page + 8;
    if (escape)
        siglongjmp(back, 1);
    mprotect(page, PAGE, PROT_READ | PROT_WRITE);
}

SEPARATE uint64_t compute(uint64_t sum)
{
    for (uint64_t n = 0; n < 3000; n++)
        sum = sum_of(sum, n);
    return sum;
}

int main(int argc, char **argv)
{
    long rounds = checked_rounds(argc, argv, 60000);
    volatile uint64_t sum = 1;
    page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        known_impossible("map a page");
    struct sigaction alarm = {.sa_handler = on_alarm, .sa_flags = SA_RESTART}, trap = {.sa_handler = on_trap};
    struct sigaction segment = {.sa_sigaction = on_segment, .sa_flags = SA_SIGINFO};
    sigaction(SIGALRM, &alarm, NULL);
    sigaction(SIGTRAP, &trap, NULL);
    sigaction(SIGSEGV, &segment, NULL);
    struct itimerval often = {{0, 100}, {0, 100}}, never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &often, NULL);
    for (volatile long round = 0; round < rounds; round++) {
        sum = compute(sum);
        if (round % 4 < 2) {
            mprotect(page, PAGE, PROT_NONE);
            escape = round % 4;
            if (sigsetjmp(back, 1) == 0) {
                *(volatile long *)(page + 8) = round;
                sum = sum_of(sum, (uint64_t) * (volatile long *)(page + 8));
            }
        } else if (round % 4 == 2) {
            raise(SIGTRAP);
        } else {
            __asm__ volatile("int3");
        }
    }
    setitimer(ITIMER_REAL, &never, NULL);
    long half = rounds / 4 * 2 + (rounds % 4 < 2 ? rounds % 4 : 2);
    printf("segments=%ld\ntraps=%ld\nwrong_address=%ld\nalarms=%s\n", segments, traps, wrong_address,
           alarms ? "some" : "none");
    return checked_end(sum, segments == half && traps == rounds - half && !wrong_address);
}
