/*
 * A 32-bit spin without a C library, so that it builds where no 32-bit library is installed. Burns --ms of CPU
 * in spin_here, called outer -> middle -> spin_here. Arguments: none or --ms N. x86 only; a kernel without
 * 32-bit support (CONFIG_IA32_EMULATION, ia32_emulation=0) refuses to start it.
 */
#include "inline_work.h"

/* Numbers of arch/x86/entry/syscalls/syscall_32.tbl; clock 3 is CLOCK_THREAD_CPUTIME_ID. */
enum { CALL_EXIT = 1, CALL_WRITE = 4, CALL_CLOCK_GETTIME = 265, THREAD_CPU_CLOCK = 3 };

static volatile uint32_t result;

static int system_call(int number, int first, const void *second, int third)
{
    int answer;
    __asm__ volatile("int $0x80" : "=a"(answer) : "a"(number), "b"(first), "c"(second), "d"(third) : "memory");
    return answer;
}

static uint32_t thread_cpu_us(void)
{
    int32_t time[2] = {0, 0}; /* seconds, nanoseconds */
    system_call(CALL_CLOCK_GETTIME, THREAD_CPU_CLOCK, time, 0);
    return (uint32_t)time[0] * 1000000u + (uint32_t)time[1] / 1000u;
}

__attribute__((noinline)) void spin_here(uint32_t us)
{
    uint32_t value = 1, start = thread_cpu_us();
    while (thread_cpu_us() - start < us)
        value = inlined_work(value);
    result = value;
}

__attribute__((noinline)) void middle(uint32_t us)
{
    spin_here(us);
    result++;
}

__attribute__((noinline)) void outer(uint32_t us)
{
    middle(us);
    result++;
}

static void print(const char *text)
{
    int length = 0;
    while (text[length])
        length++;
    system_call(CALL_WRITE, 1, text, length);
}

/* The kernel puts argc and the argument pointers on the stack. */
__attribute__((used, noreturn)) void start(char **stack)
{
    uint32_t ms = 200, us;
    if ((long)stack[0] == 3) {
        ms = 0;
        for (const char *digit = stack[3]; *digit >= '0' && *digit <= '9'; digit++)
            ms = ms * 10 + (uint32_t)(*digit - '0');
    }
    us = thread_cpu_us();
    outer(ms * 1000);
    us = thread_cpu_us() - us;
    char number[11] = {0}, *first = number + 10;
    do {
        *--first = (char)('0' + us % 10);
        us /= 10;
    } while (us);
    print("spin_here_cpu_us=");
    print(first);
    print("\nEXIT-SUCCESS\n");
    system_call(CALL_EXIT, 0, 0, 0);
    __builtin_unreachable();
}

__asm__(".globl _start\n"
        "_start: mov %esp, %eax\n"
        "xor %ebp, %ebp\n" /* ends the chain of frame pointers */
        "and $-16, %esp\n" /* the ABI's alignment at a call, with the argument pushed */
        "sub $12, %esp\n"
        "push %eax\n"
        "call start\n");
