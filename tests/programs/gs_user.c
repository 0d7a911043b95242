/*
 * Uses the gs segment itself: arch_prctl(ARCH_SET_GS) to its own memory (arch_prctl(2)), reads and writes through it,
 * and asks for it at the end. A profiler that needs gs must leave such a thread alone.
 */
#include "checked.h"

#include <asm/prctl.h>
#include <sys/syscall.h>

static uint64_t area[512];

SEPARATE uint64_t through_gs(uint64_t sum)
{
    for (uint64_t n = 0; n < 512; n++) {
        uint64_t value;
        __asm__ volatile("movq %%gs:(%1), %0\n\taddq %2, %%gs:(%1)" : "=&r"(value) : "r"(n * 8), "r"(sum) : "memory");
        sum = sum_of(sum, value);
    }
    return sum;
}

int main(int argc, char **argv)
{
    long rounds = checked_rounds(argc, argv, 300000);
    if (syscall(SYS_arch_prctl, ARCH_SET_GS, area) != 0)
        known_impossible("set the base of gs");
    uint64_t sum = 1, expected = 0, base = 0;
    for (long round = 0; round < rounds; round++)
        sum = through_gs(sum);
    for (int n = 0; n < 512; n++)
        expected = sum_of(expected, area[n]);
    syscall(SYS_arch_prctl, ARCH_GET_GS, &base);
    printf("base_kept=%s\n", base == (uint64_t)area ? "yes" : "no");
    return checked_end(sum_of(sum, expected), base == (uint64_t)area);
}
