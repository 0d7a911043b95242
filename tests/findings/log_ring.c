/* Appends to a log of 256 KiB that starts anew when it is full. */
#include "finding.h"
static char ring[256 << 10];
__attribute__((noinline)) static size_t append(size_t at, uint64_t entry) {
    for (int i = 0; i < 64; i++) {
        uint64_t mixed = (entry ^ (uint64_t)i) * 0x9e3779b97f4a7c15u / 7;
        memcpy(ring + at, &mixed, sizeof mixed);
        at += sizeof mixed;
    }
    return at & (sizeof ring - 1);
}
int main(int argc, char **argv) {
    double limit = limit_of(argc, argv);
    size_t at = 0;
    while (seconds() < limit)
        for (int round = 0; round < 1000; round++) at = append(at, at);
    keep_word((uint64_t)ring[7]);
}
