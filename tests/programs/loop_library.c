/* The libraries of dlopen_loop: built twice, with another FACTOR. */
#include <stdint.h>

__attribute__((visibility("default"))) uint64_t library_work(uint64_t sum)
{
    for (int n = 0; n < 100000; n++)
        sum = (sum ^ (uint64_t)n) * FACTOR + (sum >> 31);
    return sum;
}
