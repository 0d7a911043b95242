/* Looks up records in a mapped file, one per page in no order, none of which is in memory. */
#include "file.h"
enum { MEGABYTES = 256, PAGES = MEGABYTES << 8 };
static double limit;
__attribute__((noinline)) static uint64_t look_up(const char *file, int count) {
    static uint64_t state = 88172645463325252;
    uint64_t sum = 0;
    for (int i = 0; i < count; i++) sum += (uint64_t)file[(next_random(&state) % PAGES) << 12];
    return sum;
}
int main(int argc, char **argv) {
    limit = limit_of(argc, argv);
    int file = file_of(MEGABYTES);
    limit += seconds();
    while (seconds() < limit) {
        forget(file);
        char *mapped = mmap(NULL, (size_t)MEGABYTES << 20, PROT_READ, MAP_SHARED, file, 0);
        if (mapped == MAP_FAILED) return 2;
        madvise(mapped, (size_t)MEGABYTES << 20, MADV_RANDOM);
        for (int i = 0; i < 100 && seconds() < limit; i++) keep_word(look_up(mapped, 500));
        munmap(mapped, (size_t)MEGABYTES << 20);
    }
}
