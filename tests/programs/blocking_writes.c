/* Writes --count (400) blocks of 1 MiB to a pipe whose reader takes them slowly, so that each write blocks in the
 * kernel. Known answer: no write is short. An observer that interrupts system calls makes some short, and a program
 * that takes a short write for an error then fails only under observation. */
#include <sys/wait.h>

#include "known.h"

enum { BLOCK = 1 << 20 };
static char block[BLOCK];

static void read_all(int from)
{
    static char buffer[1 << 16];
    while (read(from, buffer, sizeof buffer) > 0) {
    }
    _exit(0);
}

int main(int argc, char **argv)
{
    long count = 400;
    known_options(argc, argv, &(struct known_option){"--count", &count, 1, 100000}, 1);
    int ends[2];
    if (pipe(ends) != 0)
        return 1;
    pid_t reader = fork();
    if (reader == 0) {
        close(ends[1]);
        read_all(ends[0]);
    }
    close(ends[0]);
    long short_writes = 0;
    for (long done = 0; done < count; done++)
        if (write(ends[1], block, BLOCK) != BLOCK)
            short_writes++;
    close(ends[1]);
    waitpid(reader, NULL, 0);
    printf("writes=%ld\nshort_writes=%ld\n", count, short_writes);
    known_end();
    return short_writes != 0;
}
