/*
 * rep movs, stos, lods, cmps and scas, forwards and backwards, of 0 to 5000 bytes: how many accesses they make, and
 * where they stop, is known only when they ran. Compared with plain loops.
 */
#include "checked.h"

enum { BYTES = 8192 };

static unsigned char from[BYTES], to[BYTES], expected[BYTES];

SEPARATE static size_t equal_bytes(const void *a, const void *b, size_t count)
{
    size_t left = count;
    /* The first comparison sets the flags that repe tests before each next one; count 0 makes none. */
    __asm__ volatile("repe cmpsb" : "+D"(a), "+S"(b), "+c"(left)::"cc", "memory");
    return count - left;
}

SEPARATE static size_t bytes_before(const void *in, int wanted, size_t count)
{
    size_t left = count;
    __asm__ volatile("repne scasb" : "+D"(in), "+c"(left) : "a"(wanted) : "cc", "memory");
    return count - left;
}

SEPARATE static void copy_backwards(void *end_to, const void *end_from, size_t count)
{
    __asm__ volatile("std\n\trep movsb\n\tcld" : "+D"(end_to), "+S"(end_from), "+c"(count)::"memory");
}

SEPARATE static uint64_t last_word(const void *words, size_t count)
{
    uint64_t found = 0;
    __asm__ volatile("rep lodsq" : "+S"(words), "+c"(count), "+a"(found)::"memory");
    return found;
}

int main(int argc, char **argv)
{
    long rounds = checked_rounds(argc, argv, 200000), wrong = 0;
    uint64_t state = 88172645463325252u, sum = 1;
    for (long round = 0; round < rounds; round++) {
        size_t count = next_random(&state) % 5000, at = next_random(&state) % 3000, words = count / 8;
        for (int n = 0; n < 64; n++)
            from[next_random(&state) % BYTES] = (unsigned char)state;
        void *target = to + at, *source = from + at;
        size_t left = count;
        __asm__ volatile("rep movsb" : "+D"(target), "+S"(source), "+c"(left)::"memory");
        for (size_t n = 0; n < count; n++)
            expected[at + n] = from[at + n];
        if (round % 3 == 0 && count) {
            copy_backwards(to + at + count, to + at + count - 1, count); /* overlapping, by one byte */
            for (size_t n = count; n > 0; n--)
                expected[at + n] = expected[at + n - 1];
        }
        if (round % 5 == 0) {
            target = to, left = words;
            __asm__ volatile("rep stosq" : "+D"(target), "+c"(left) : "a"(state) : "memory");
            for (size_t n = 0; n < words; n++)
                memcpy(expected + 8 * n, &state, 8);
        }
        wrong += memcmp(to, expected, BYTES) != 0;
        size_t same = 0, before = 0;
        while (same < count && to[same] == from[same])
            same++;
        wrong += equal_bytes(to, from, count) != (same < count ? same + 1 : count);
        while (before < count && to[before] != 77)
            before++;
        wrong += bytes_before(to, 77, count) != (before < count ? before + 1 : count);
        uint64_t last = 0;
        if (words)
            memcpy(&last, to + 8 * (words - 1), 8);
        wrong += last_word(to, words) != last;
        sum = sum_of(sum, last + same + before);
    }
    printf("wrong=%ld\n", wrong);
    return checked_end(sum, wrong == 0);
}
