/*
 * Executes a known number of instructions: --turns turns of four in each of two loops, three quarters of the turns in
 * counted_most and a quarter in counted_few, which counted_calls calls. Prints the instructions of the loops.
 */
#include "../programs/known.h"

SEPARATE void counted_most(uint64_t turns)
{
    uint64_t sum = 0;
    __asm__ volatile("1: add %1, %1, #3\n\teor %1, %1, #1\n\tsubs %0, %0, #1\n\tb.ne 1b" : "+r"(turns), "+r"(sum) : : "cc");
}

SEPARATE void counted_few(uint64_t turns)
{
    uint64_t sum = 0;
    __asm__ volatile("1: add %1, %1, #3\n\teor %1, %1, #1\n\tsubs %0, %0, #1\n\tb.ne 1b" : "+r"(turns), "+r"(sum) : : "cc");
}

SEPARATE void counted_calls(uint64_t turns)
{
    uint64_t few = turns / 4;
    counted_most(turns - few);
    counted_few(few);
    __asm__ volatile(""); /* no tail call */
}

int main(int argc, char **argv)
{
    long turns = 100 * MEGA;
    known_options(argc, argv, &(struct known_option){"--turns", &turns, 8, 100000L * MEGA}, 1);
    counted_calls((uint64_t)turns);
    printf("instructions=%ld\n", 4 * turns);
    known_end();
    return 0;
}
