/* Mixes samples into a sum: gain, offset and the sum lie in a structure of floats, as the samples do, so that each sample
   stored might be one of them, and all three are loaded again, and the sum waits for its own store. 16 KB, in the caches.
   Fixed (-DFIXED: they are kept in variables) it takes less than half of the time. */
#include "finding.h"

enum { SAMPLES = 4096 };

struct mixer { float *out; float gain, offset, sum; };

__attribute__((noinline)) static void mix(struct mixer *mixer, const float *in) {
#ifdef FIXED
    float *out = mixer->out, gain = mixer->gain, offset = mixer->offset, sum = mixer->sum;
    for (size_t i = 0; i < SAMPLES; i++) {
        out[i] = in[i] * gain + offset;
        sum += in[i];
    }
    mixer->sum = sum;
#else
    for (size_t i = 0; i < SAMPLES; i++) {
        mixer->out[i] = in[i] * mixer->gain + mixer->offset;
        mixer->sum += in[i];
    }
#endif
}

int main(int argc, char **argv) {
    double limit = limit_of(argc, argv);
    float *in = huge(SAMPLES * sizeof *in), *out = huge(SAMPLES * sizeof *out);
    for (int i = 0; i < SAMPLES; i++) in[i] = (float)(i % 7) * 0.1f;
    struct mixer mixer = {out, 0.5f, 0.1f, 0.0f};
    while (seconds() < limit)
        for (int round = 0; round < 100; round++) mix(&mixer, in);
    keep(mixer.sum + out[9]);
}
