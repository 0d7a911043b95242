/* Brightens bytes that, for all the compiler knows, may be the pointers to them: it loads these anew for each byte. */
#include "finding.h"
enum { BYTES = 512 << 10 };
struct plane { unsigned char *bytes; size_t count; };
struct settings { int gain, floor; };
struct frame { struct plane *plane; struct settings *settings; };
__attribute__((noinline)) static void brighten(struct frame *frame) {
    for (size_t i = 0; i < frame->plane->count; i++)
        frame->plane->bytes[i] += frame->settings->gain - frame->settings->floor;
}
int main(int argc, char **argv) {
    double limit = limit_of(argc, argv);
    struct plane plane = {huge(BYTES), BYTES};
    struct settings settings = {argc + 4, 1};
    struct frame frame = {&plane, &settings};
    while (seconds() < limit) brighten(&frame);
    keep_word(plane.bytes[7]);
}
