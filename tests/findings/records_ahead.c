/* Looks up records in a mapped file, in no order, which was asked for before. */
#include "file.h"
enum { MEGABYTES = 64, PAGES = MEGABYTES << 8 };
__attribute__((noinline)) static uint64_t look_up(const char *file, int count) {
    static uint64_t state = 88172645463325252;
    uint64_t sum = 0;
    for (int i = 0; i < count; i++) sum += (uint64_t)file[(next_random(&state) % PAGES) << 12];
    return sum;
}
int main(int argc, char **argv) {
    double limit = limit_of(argc, argv);
    int file = file_of(MEGABYTES);
    char *mapped = mmap(NULL, (size_t)MEGABYTES << 20, PROT_READ, MAP_SHARED | MAP_POPULATE, file, 0);
    if (mapped == MAP_FAILED) return 2;
    limit += seconds();
    while (seconds() < limit) {
        keep_word(look_up(mapped, 500));
        compute_for(1e-3);
    }
}
