/* Allocates and frees a large buffer per round, but keeps the heap from giving its pages back. */
#include "finding.h"
#include <malloc.h>
enum { BYTES = 1 << 20 };
__attribute__((noinline)) static uint64_t round_of(uint64_t seed) {
    uint64_t *buffer = malloc(BYTES), sum = 0;
    if (buffer == NULL) exit(2);
    for (size_t i = 0; i < BYTES / sizeof *buffer; i++) buffer[i] = next_random(&seed);
    for (size_t i = 0; i < BYTES / sizeof *buffer; i++) sum = sum * 31 + buffer[i];
    free(buffer);
    return sum;
}
int main(int argc, char **argv) {
    double limit = limit_of(argc, argv);
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 64 << 20);
    for (uint64_t round = 1; seconds() < limit; round++) keep_word(round_of(round));
}
