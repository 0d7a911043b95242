/* The libraries of dlopen_loop and libraries_swapped: built twice for each, with another FACTOR. */
#include <stdint.h>

#ifndef TURNS
#define TURNS 100000
#endif

__attribute__((visibility("default"))) uint64_t library_work(uint64_t sum)
{
    for (int n = 0; n < TURNS; n++)
        sum = (sum ^ (uint64_t)n) * FACTOR + (sum >> 31);
    return sum;
}
