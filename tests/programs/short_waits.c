/*
 * Works for about a millisecond, then waits for --wait microseconds (1000), and so on --waits times (1000): a tracer that
 * stops threads which have not waited for a millisecond stops this one now and then when a wait has just begun. Each wait is
 * one that ends with EINTR when its thread is stopped (signal(7)), and must not: epoll_wait, semtimedop, sigtimedwait, and
 * recv with SO_RCVTIMEO, of which --only N (1..4) takes one. Prints how many were cut short.
 */
#include "known.h"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/sem.h>
#include <sys/socket.h>

enum { KINDS = 4, WORK = 600000 };

static volatile uint64_t sink;

SEPARATE void work(int64_t until)
{
    while (known_clock(CLOCK_MONOTONIC) < until)
        for (int n = 0; n < 1000; n++)
            sink += (uint64_t)n;
}

int main(int argc, char **argv)
{
    long waits = 1000, wait = 1000, only = 0, cut_short[KINDS] = {0};
    known_options(argc, argv,
                  (struct known_option[]){{"--waits", &waits, 1, 1000000}, {"--wait", &wait, 1000, 100000}, {"--only", &only, 0, KINDS}}, 3);
    int events = epoll_create1(0), sockets[2];
    int semaphore = semget(IPC_PRIVATE, 1, 0600);
    if (events < 0 || semaphore < 0 || socketpair(AF_UNIX, SOCK_DGRAM, 0, sockets) != 0)
        known_impossible("make what to wait for");
    struct timeval limit = {.tv_usec = wait};
    setsockopt(sockets[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    struct timespec time = {.tv_nsec = wait * 1000};
    sigset_t none;
    sigemptyset(&none);
    for (long number = 0; number < waits; number++) {
        work(known_clock(CLOCK_MONOTONIC) + WORK + (random() >> 8) % 1500000);
        struct epoll_event event;
        struct sembuf take = {.sem_op = -1};
        char byte;
        long kind = only > 0 ? only - 1 : number % KINDS, got = 0;
        errno = 0;
        switch (kind) {
        case 0: got = epoll_wait(events, &event, 1, (int)(wait / 1000)); break;
        case 1: got = semtimedop(semaphore, &take, 1, &time); break;
        case 2: got = sigtimedwait(&none, NULL, &time); break;
        default: got = recv(sockets[0], &byte, 1, 0); break;
        }
        cut_short[kind] += got < 0 && errno == EINTR;
    }
    semctl(semaphore, 0, IPC_RMID);
    printf("waits=%ld\ncut_short=%ld\n", waits, cut_short[0] + cut_short[1] + cut_short[2] + cut_short[3]);
    printf("epoll=%ld\nsemaphore=%ld\nsignals=%ld\nsocket=%ld\n", cut_short[0], cut_short[1], cut_short[2], cut_short[3]);
    known_end();
    return 0;
}
