/*
 * Fills a temporary file with numbers, and passes over it --rounds times: reads a part, works on it for some ten microseconds, and
 * writes it back; what it prints comes from what it read. It enters the kernel often, and only in calls on a file: a tracer that
 * goes on behind them must neither make one twice, nor leave one out, nor cut one short.
 */
#include "checked.h"

#include <unistd.h>

enum { WORDS = 1 << 12, PARTS = 16 };

static uint64_t words[WORDS];

SEPARATE uint64_t summed(uint64_t sum)
{
    for (int n = 0; n < WORDS; n++) {
        sum = sum_of(sum, words[(sum >> 7) % WORDS]);
        words[n] ^= sum;
    }
    return sum;
}

int main(int argc, char **argv)
{
    long rounds = checked_rounds(argc, argv, 2000);
    FILE *stream = tmpfile();
    if (!stream)
        known_impossible("make a temporary file");
    int file = fileno(stream);
    uint64_t sum = 1;
    for (int part = 0; part < PARTS; part++) {
        for (int n = 0; n < WORDS; n++)
            words[n] = sum = sum_of(sum, (uint64_t)n);
        if (write(file, words, sizeof words) != sizeof words)
            known_impossible("write a temporary file");
    }
    long whole = 0;
    for (long round = 0; round < rounds; round++) {
        off_t at = (off_t)sizeof words * (round * 7 % PARTS);
        if (lseek(file, at, SEEK_SET) != at)
            return 1;
        whole += read(file, words, sizeof words) == sizeof words;
        sum = summed(sum);
        whole += pwrite(file, words, sizeof words, at) == sizeof words;
    }
    printf("whole=%ld\n", whole);
    return checked_end(sum, 1);
}
