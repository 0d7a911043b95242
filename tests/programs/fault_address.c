/*
 * Divides by zero (SIGFPE) and executes ud2 (SIGILL) on purpose. For these si_addr is the address of the faulting
 * instruction (sigaction(2)); it, and the saved rip, must be the program's own. The handler steps over it.
 */
#include "checked.h"

#include <signal.h>
#include <ucontext.h>

extern char divide_here[], divided[], illegal_here[], illegal_over[];

static volatile long faults, wrong;

static void on_fault(int number, siginfo_t *info, void *context)
{
    ucontext_t *state = context;
    char *expected = number == SIGFPE ? divide_here : illegal_here;
    faults++;
    wrong += info->si_addr != expected || (char *)state->uc_mcontext.gregs[REG_RIP] != expected;
    state->uc_mcontext.gregs[REG_RIP] = (greg_t)(number == SIGFPE ? divided : illegal_over);
}

SEPARATE uint64_t divide(uint64_t value, uint32_t by)
{
    uint32_t low = (uint32_t)value, high = 0;
    __asm__ volatile("divide_here: divl %2\ndivided:\n" : "+a"(low), "+d"(high) : "r"(by) : "cc");
    return low + high;
}

SEPARATE void illegal(void) { __asm__ volatile("illegal_here: ud2\nillegal_over:\n" ::: "memory"); }

int main(int argc, char **argv)
{
    long rounds = checked_rounds(argc, argv, 200000);
    struct sigaction fault = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    sigaction(SIGFPE, &fault, NULL);
    sigaction(SIGILL, &fault, NULL);
    uint64_t sum = 1;
    for (uint64_t round = 0; round < (uint64_t)rounds; round++) {
        for (uint32_t n = 1; n < 200; n++)
            sum = sum_of(sum, divide(sum, n));
        sum = sum_of(sum, divide(round, 0));
        if (round % 8 == 0)
            illegal();
    }
    long expected = rounds + (rounds + 7) / 8;
    printf("faults=%ld\nwrong=%ld\n", faults, wrong);
    return checked_end(sum, faults == expected && wrong == 0);
}
