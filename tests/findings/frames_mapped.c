/* Maps a frame of 6 MiB for each picture, draws into it and unmaps it. */
#include "finding.h"
enum { PIXELS = 1536 << 10 };
__attribute__((noinline)) static void draw(uint32_t *frame, uint32_t colour) {
    for (uint32_t i = 0; i < PIXELS; i++) frame[i] = colour ^ i;
}
int main(int argc, char **argv) {
    double limit = limit_of(argc, argv);
    for (uint32_t colour = 0; seconds() < limit; colour++) {
        uint32_t *frame = mmap(NULL, PIXELS * 4, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (frame == MAP_FAILED) return 2;
        draw(frame, colour);
        keep_word(frame[77]);
        munmap(frame, PIXELS * 4);
    }
}
