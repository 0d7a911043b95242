/*
 * Forbids itself the time-stamp counter (prctl(2), PR_SET_TSC): rdtsc raises SIGSEGV. Its code is many small functions in turn, so
 * a profiler comes to new code again and again. What a profiler reads the clock for must not reach the program.
 */
#include "checked.h"

#include <sys/prctl.h>

#define ONE(n)                                                                                     \
    SEPARATE uint64_t f##n(uint64_t sum)                                                           \
    {                                                                                              \
        return sum_of(sum & (1u << (n % 32)) ? sum : table[sum % 512], n);                         \
    }
#define ALL(of)                                                                                    \
    SIXTEEN(of, 0) SIXTEEN(of, 1) SIXTEEN(of, 2) SIXTEEN(of, 3) SIXTEEN(of, 4) SIXTEEN(of, 5)
#define SIXTEEN(of, m)                                                                             \
    of(1##m##00) of(1##m##01) of(1##m##02) of(1##m##03) of(1##m##04) of(1##m##05) of(1##m##06)     \
    of(1##m##07) of(1##m##08) of(1##m##09) of(1##m##10) of(1##m##11) of(1##m##12) of(1##m##13)     \
    of(1##m##14) of(1##m##15)

static uint64_t table[512];

ALL(ONE)

int main(int argc, char **argv)
{
    long rounds = checked_rounds(argc, argv, 400000);
    for (int n = 0; n < 512; n++)
        table[n] = sum_of(1, (uint64_t)n);
    if (prctl(PR_SET_TSC, PR_TSC_SIGSEGV) != 0)
        known_impossible("forbid the time-stamp counter");
    uint64_t sum = 1;
#define CALL(n) sum = f##n(sum);
    for (long round = 0; round < rounds; round++) {
        ALL(CALL)
    }
    prctl(PR_SET_TSC, PR_TSC_ENABLE);
    return checked_end(sum, 1);
}
