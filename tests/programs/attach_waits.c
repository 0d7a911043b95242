/*
 * Waits in the kernel in one way, in its only thread, and prints whether the wait ended otherwise than it should:
 *   --futex, --sleep, --epoll, --signals      (none: read)
 * read, epoll: until the end of standard input. futex: until a second process, which waits for that end, wakes it. sleep:
 * --ms (2000) milliseconds; it must take at least so long and not be cut short. signals: epoll_pwait without a time limit,
 * in which alone SIGALRM is not blocked: each run of its handler must end one call with EINTR.
 */
#include "known.h"

#include <linux/futex.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>

static long use_futex, use_sleep, use_epoll, use_signals, ms = 2000;
static volatile sig_atomic_t handled;
static long interrupted;

static void handle(int number)
{
    (void)number;
    handled++;
}

static void ready(void)
{
    /* One block, so that the allocator's functions are looked up. */
    free(malloc(100));
    printf("ready=1\n");
    fflush(stdout);
}

static int wait_for_end(void)
{
    char byte;
    return read(0, &byte, 1) == 0;
}

static int wait_in_futex(void)
{
    int *word = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (word == MAP_FAILED)
        known_impossible("map memory");
    pid_t child = fork();
    if (child == 0) {
        wait_for_end();
        __atomic_store_n(word, 1, __ATOMIC_SEQ_CST);
        syscall(SYS_futex, word, FUTEX_WAKE, 1, 0, 0, 0);
        _exit(0);
    }
    ready();
    while (__atomic_load_n(word, __ATOMIC_SEQ_CST) == 0)
        if (syscall(SYS_futex, word, FUTEX_WAIT, 0, 0, 0, 0) != 0 && errno != EAGAIN)
            return 0;
    return waitpid(child, 0, 0) == child;
}

static int wait_in_sleep(void)
{
    struct timespec before, after, length = {ms / 1000, ms % 1000 * MEGA};
    ready();
    clock_gettime(CLOCK_MONOTONIC, &before);
    int result = nanosleep(&length, 0);
    clock_gettime(CLOCK_MONOTONIC, &after);
    double slept = (after.tv_sec - before.tv_sec) * 1e3 + (after.tv_nsec - before.tv_nsec) * 1e-6;
    return result == 0 && slept >= ms && wait_for_end();
}

static int wait_in_epoll(int with_signals)
{
    int events = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    if (events < 0 || epoll_ctl(events, EPOLL_CTL_ADD, 0, &event) != 0)
        known_impossible("use epoll");
    sigset_t none, alarm;
    sigemptyset(&none);
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    if (with_signals) {
        struct sigaction action = {.sa_handler = handle};
        struct itimerval often = {{0, 3000}, {0, 3000}};
        sigprocmask(SIG_BLOCK, &alarm, 0);
        sigaction(SIGALRM, &action, 0);
        setitimer(ITIMER_REAL, &often, 0);
    }
    ready();
    int got;
    while ((got = epoll_pwait(events, &event, 1, -1, with_signals ? &none : 0)) < 0 && errno == EINTR)
        interrupted++;
    /* The call that ends with an event runs no handler: the signal stays blocked. */
    return got == 1 && interrupted == handled;
}

int main(int count, char **words)
{
    const struct known_option options[] = {
        {"--futex", &use_futex, 1, 1},     {"--sleep", &use_sleep, 1, 1}, {"--epoll", &use_epoll, 1, 1},
        {"--signals", &use_signals, 1, 1}, {"--ms", &ms, 1, 60000},
    };
    known_options(count, words, options, 5);
    int as_it_should;
    if (use_futex)
        as_it_should = wait_in_futex();
    else if (use_sleep)
        as_it_should = wait_in_sleep();
    else if (use_epoll || use_signals)
        as_it_should = wait_in_epoll(use_signals);
    else {
        ready();
        as_it_should = wait_for_end();
    }
    /* Allocation works as before. */
    for (int number = 1; number <= 1000; number++)
        free(malloc(number * 100));
    printf("as_it_should=%d\n", as_it_should);
    puts("EXIT-SUCCESS");
    return 0;
}
