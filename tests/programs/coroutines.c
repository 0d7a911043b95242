/*
 * Three coroutines by swapcontext on stacks of their own, and longjmp out of nested calls: returns that match no
 * call, stack pointers that jump. swapcontext makes a system call each time, longjmp none.
 */
#include "checked.h"

#include <setjmp.h>
#include <ucontext.h>

enum { STACK = 64 * 1024 };

static ucontext_t here, others[3];
static char stacks[3][STACK];
static uint64_t sum = 1;
static jmp_buf back;

SEPARATE void leap(int depth)
{
    sum = sum_of(sum, (uint64_t)depth);
    if (depth == 0)
        longjmp(back, 1);
    if (depth > 0) /* always; the compiler is not to see that this never returns */
        leap(depth - 1);
    sum = 0; /* never reached */
}

static void body(int number)
{
    for (uint64_t step = 0;; step++) {
        for (uint64_t n = 0; n < 500; n++)
            sum = sum_of(sum, step * 3 + (uint64_t)number + n);
        swapcontext(&others[number], number == 2 ? &here : &others[number + 1]);
    }
}

int main(int argc, char **argv)
{
    volatile long rounds = checked_rounds(argc, argv, 120000);
    for (int n = 0; n < 3; n++) {
        getcontext(&others[n]);
        others[n].uc_stack.ss_sp = stacks[n];
        others[n].uc_stack.ss_size = STACK;
        makecontext(&others[n], (void (*)(void))body, 1, n);
    }
    for (volatile long round = 0; round < rounds; round++) {
        swapcontext(&here, &others[0]);
        if (setjmp(back) == 0)
            leap((int)(round % 30));
    }
    return checked_end(sum, sum != 0);
}
