/* A recording holds the samples of a thousand channels side by side; the loudest of each is sought channel by channel. */
#include "finding.h"
enum { CHANNELS = 1024, SAMPLES = 64 << 10 };
__attribute__((noinline)) static float loudest(const float *recording, size_t channel) {
    float most = 0.0f;
    for (size_t at = channel; at < (size_t)CHANNELS * SAMPLES; at += CHANNELS)
        most = recording[at] > most ? recording[at] : most;
    return most;
}
int main(int argc, char **argv) {
    float *recording = huge((size_t)CHANNELS * SAMPLES * sizeof *recording);
    double limit = limit_of(argc, argv) + seconds();
    for (size_t channel = 0; seconds() < limit; channel = (channel + 1) % CHANNELS) keep(loudest(recording, channel));
}
