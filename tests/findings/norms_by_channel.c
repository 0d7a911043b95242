/* Batch normalisation over images whose channels lie next to each other (NHWC, 411 MB in huge pages): the mean and the
   variance of one channel after the other, each a walk through the whole batch in steps of 1 KiB. Cause: the stride.
   FIXED walks by pixel, channels inside: 11 times the speed. */
#include "finding.h"

#define IMAGES 128
#define PIXELS (56 * 56)
#define CHANNELS 256

struct batch {
    float (*image)[PIXELS][CHANNELS];
};
struct moments {
    float sum, squares;
};

static void moments_of(const struct batch *batch, struct moments *of) {
    memset(of, 0, CHANNELS * sizeof *of);
#ifdef FIXED
    for (int n = 0; n < IMAGES; n++)
        for (int p = 0; p < PIXELS; p++)
            for (int c = 0; c < CHANNELS; c++) {
#else
    for (int c = 0; c < CHANNELS; c++)
        for (int n = 0; n < IMAGES; n++)
            for (int p = 0; p < PIXELS; p++) {
#endif
                float value = batch->image[n][p][c];
                of[c].sum += value;
                of[c].squares += value * value;
            }
}

int main(int argc, char **argv) {
    double until = limit_of(argc, argv);
    struct batch batch = {huge(sizeof(float) * IMAGES * PIXELS * CHANNELS)};
    for (int n = 0; n < IMAGES; n++)
        for (int p = 0; p < PIXELS; p++)
            for (int c = 0; c < CHANNELS; c++) batch.image[n][p][c] = (float)(n ^ p ^ c);
    struct moments of[CHANNELS];
    double begun = seconds();
    int rounds = 0;
    do moments_of(&batch, of), rounds++;
    while (seconds() < until);
    keep(of[3].sum);
    printf("%.2f batches/s\n", rounds / (seconds() - begun));
    return 0;
}
