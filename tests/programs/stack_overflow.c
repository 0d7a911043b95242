/*
 * Recurses until the stack ends, --rounds times: SIGSEGV arrives on an alternate stack (the only place left), and
 * siglongjmp leads out. The depth reached is the same each time.
 */
#include "checked.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>

static sigjmp_buf back;
static volatile long depth, overflows;

static void on_segment(int number)
{
    (void)number;
    overflows++;
    siglongjmp(back, 1);
}

SEPARATE uint64_t deeper(uint64_t sum)
{
    volatile char frame[128];
    frame[sum % 128] = (char)sum;
    if (++depth < 0) /* never; the compiler is not to see that this never returns */
        return sum;
    return deeper(sum_of(sum, (uint64_t)depth)) + (uint64_t)frame[sum % 128];
}

static void *run(void *argument)
{
    volatile long rounds = *(long *)argument, first = 0;
    static char memory[64 * 1024];
    stack_t alternate = {.ss_sp = memory, .ss_size = sizeof memory};
    struct sigaction segment = {.sa_handler = on_segment, .sa_flags = SA_ONSTACK};
    sigaltstack(&alternate, NULL);
    sigaction(SIGSEGV, &segment, NULL);
    volatile uint64_t sum = 1;
    for (volatile long round = 0; round < rounds; round++) {
        depth = 0;
        if (sigsetjmp(back, 1) == 0)
            deeper(7);
        first = round == 0 ? depth : first;
        sum = sum_of(sum, (uint64_t)(depth == first));
    }
    *(long *)argument = (long)sum;
    return NULL;
}

int main(int argc, char **argv)
{
    long rounds = checked_rounds(argc, argv, 15000), asked = rounds;
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 1 << 20);
    pthread_t thread;
    if ((errno = pthread_create(&thread, &small, run, &rounds)))
        known_impossible("start a thread");
    pthread_join(thread, NULL);
    printf("overflows=%ld\n", overflows);
    return checked_end((uint64_t)rounds, overflows == asked);
}
