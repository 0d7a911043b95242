/* Appends 1.5 GiB to a log in memory, and ends. */
#include "finding.h"
__attribute__((noinline)) static size_t append(char *log, size_t at, uint64_t entry) {
    for (int i = 0; i < 64; i++) {
        memcpy(log + at, &entry, sizeof entry);
        at += sizeof entry;
    }
    return at;
}
int main(int argc, char **argv) {
    size_t bytes = (size_t)(limit_of(argc, argv) * 512.0) << 20;
    char *log = mmap(NULL, bytes + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (log == MAP_FAILED) return 2;
    for (size_t at = 0; at < bytes;) at = append(log, at, at);
    keep_word((uint64_t)log[bytes / 2]);
}
