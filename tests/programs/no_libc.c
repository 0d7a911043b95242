/*
 * Static, without a C library: no loader, no thread-local storage, fs unused, two system calls in all. Computes over
 * 1 MB and prints the sum.
 */
#include <stdint.h>

enum { CALL_WRITE = 1, CALL_EXIT = 60, WORDS = 1 << 17, ROUNDS = 400 };

static uint64_t memory[WORDS];

static long system_call(long number, long first, const void *second, long third)
{
    long answer;
    __asm__ volatile("syscall" : "=a"(answer) : "a"(number), "D"(first), "S"(second), "d"(third) : "rcx", "r11", "memory");
    return answer;
}

__attribute__((noinline)) uint64_t work(uint64_t sum)
{
    for (int n = 0; n < WORDS; n++) {
        memory[n] += sum;
        sum = (sum ^ memory[sum % WORDS]) * 0x9e3779b97f4a7c15u;
        sum ^= sum >> 29;
    }
    return sum;
}

__attribute__((used, noreturn)) void start(void)
{
    uint64_t sum = 1;
    char text[] = "checksum=0000000000000000\nEXIT-SUCCESS\n";
    for (int round = 0; round < ROUNDS; round++)
        sum = work(sum);
    for (int digit = 15; digit >= 0; digit--, sum >>= 4)
        text[9 + digit] = "0123456789abcdef"[sum & 15];
    system_call(CALL_WRITE, 1, text, sizeof text - 1);
    system_call(CALL_EXIT, 0, 0, 0);
    __builtin_unreachable();
}

__asm__(".globl _start\n_start: xor %ebp, %ebp\nand $-16, %rsp\ncall start\n");
