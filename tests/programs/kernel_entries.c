/*
 * Enters the kernel a known number of times: --calls of getppid, as many reads of one byte from /dev/zero into a fresh
 * page each (a fault in the kernel), --sleeps of clock_nanosleep, a millisecond each.
 */
#include "known.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

int main(int argc, char **argv)
{
    long calls = 10000, sleeps = 20;
    const struct known_option options[] = {{"--calls", &calls, 1, 10000000}, {"--sleeps", &sleeps, 1, 100000}};
    known_options(argc, argv, options, 2);
    for (long call = 0; call < calls; call++)
        syscall(SYS_getppid);
    int zeroes = open("/dev/zero", O_RDONLY);
    size_t bytes = (size_t)calls * PAGE;
    char *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (zeroes < 0 || start == MAP_FAILED)
        known_impossible("open /dev/zero and map the pages");
    madvise(start, bytes, MADV_NOHUGEPAGE); /* fails where there are no huge pages: fine */
    long readable = 0;
    for (long page = 0; page < calls; page++)
        readable += syscall(SYS_pread64, zeroes, start + page * PAGE, 1, 0L);
    struct timespec millisecond = {0, 1000000};
    for (long nap = 0; nap < sleeps; nap++)
        syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &millisecond, NULL);
    printf("getppid=%ld\npread64=%ld\nclock_nanosleep=%ld\n", calls, readable, sleeps);
    known_end();
    return 0;
}
