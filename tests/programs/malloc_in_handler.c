/*
 * Signal handlers that allocate, --signals (1000) of each kind: `on_own_stack` runs on the program's stack and asks for 48
 * bytes, `on_other_stack` on an alternate one (sigaltstack(2)) and asks for 80; each frees its block. Between two signals
 * `meanwhile` asks for 112 bytes. Signals come by raise(3), so never inside of malloc, where a handler may not allocate
 * (signal-safety(7)). One thread; nothing else is allocated.
 */
#include "known.h"

#include <signal.h>

static volatile sig_atomic_t handled;

static void ask(size_t bytes)
{
    char *volatile block = malloc(bytes);
    if (!block)
        known_impossible("allocate");
    block[0] = 1;
    free(block);
}

SEPARATE void on_own_stack(int signal)
{
    ask(48);
    handled += signal == SIGUSR1;
}

SEPARATE void on_other_stack(int signal)
{
    ask(80);
    handled += signal == SIGUSR2;
}

SEPARATE void meanwhile(void)
{
    ask(112);
    handled += 1;
}

int main(int argc, char **argv)
{
    long signals = 1000;
    known_options(argc, argv, &(struct known_option){"--signals", &signals, 1, 1000000}, 1);
    static char other[1 << 16];
    stack_t stack = {.ss_sp = other, .ss_size = sizeof other};
    struct sigaction own = {.sa_handler = on_own_stack};
    struct sigaction alternate = {.sa_handler = on_other_stack, .sa_flags = SA_ONSTACK};
    if (sigaltstack(&stack, NULL) != 0 || sigaction(SIGUSR1, &own, NULL) != 0 || sigaction(SIGUSR2, &alternate, NULL) != 0)
        known_impossible("handle signals");
    for (long n = 0; n < signals; n++) {
        raise(SIGUSR1);
        meanwhile();
        raise(SIGUSR2);
    }
    printf("handled=%ld\nsignals=%ld\nEXIT-SUCCESS\n", (long)handled, signals);
    return handled == 3 * signals ? 0 : 1;
}
