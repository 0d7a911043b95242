/* qsort with a comparison by pointer, and bsearch: calls back and forth between program and library. */
#include "checked.h"

enum { COUNT = 100000 };

static uint32_t values[COUNT];

static int by_value(const void *left, const void *right)
{
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

static int by_bits(const void *left, const void *right)
{
    int a = __builtin_popcount(*(const uint32_t *)left), b = __builtin_popcount(*(const uint32_t *)right);
    return a != b ? a - b : by_value(left, right);
}

int main(int argc, char **argv)
{
    long rounds = checked_rounds(argc, argv, 30), wrong = 0;
    uint64_t state = 88172645463325252u, sum = 1;
    for (long round = 0; round < rounds; round++) {
        for (int n = 0; n < COUNT; n++)
            values[n] = (uint32_t)next_random(&state) & 0xfffff;
        qsort(values, COUNT, sizeof *values, by_bits);
        sum = sum_of(sum, values[COUNT / 3]);
        qsort(values, COUNT, sizeof *values, by_value);
        for (int n = 1; n < COUNT; n++)
            wrong += values[n - 1] > values[n];
        for (uint32_t key = 0; key < 1000; key++)
            sum = sum_of(sum, bsearch(&key, values, COUNT, sizeof *values, by_value) != NULL);
    }
    printf("wrong=%ld\n", wrong);
    return checked_end(sum, wrong == 0);
}
