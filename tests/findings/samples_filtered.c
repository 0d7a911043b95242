/* Near-miss of false-sharing: two threads filter signals, and their counters lie in one line, as carelessly as can be;
   but each is written once for 16384 samples. Apart or together, the time is the same. The signals stay in the cache. */
#include "finding.h"

enum { SAMPLES = 16384, TAPS = 8 };

struct progress { long blocks[2]; double energy[2]; };
struct channel { int me; double limit; struct progress *progress; float in[SAMPLES + TAPS], out[SAMPLES]; };

static struct channel channels[2] __attribute__((aligned(128)));

static float tap(const float *in, const float *weights) {
    float sum = 0.0f;
    for (int k = 0; k < TAPS; k++) sum += in[k] * weights[k];
    return sum;
}

static void *filter(void *argument) {
    struct channel *c = argument;
    static const float weights[TAPS] = {0.1f, 0.2f, 0.3f, 0.4f, -0.4f, -0.3f, -0.2f, -0.1f};
    while (seconds() < c->limit) {
        float energy = 0.0f;
        for (int i = 0; i < SAMPLES; i++) {
            c->out[i] = tap(c->in + i, weights);
            energy += c->out[i] * c->out[i];
        }
        c->progress->blocks[c->me]++;
        c->progress->energy[c->me] += (double)energy;
    }
    return NULL;
}

int main(int argc, char **argv) {
    double limit = limit_of(argc, argv);
    static struct progress progress __attribute__((aligned(64)));
    pthread_t threads[2];
    for (int t = 0; t < 2; t++) {
        struct channel *c = &channels[t];
        c->me = t;
        c->limit = limit;
        c->progress = &progress;
        for (int i = 0; i < SAMPLES + TAPS; i++) c->in[i] = (float)(i % 100) * 0.01f;
        if (pthread_create(&threads[t], NULL, filter, c)) return 2;
    }
    for (int t = 0; t < 2; t++) pthread_join(threads[t], NULL);
    printf("%ld rounds, energy %g\n", progress.blocks[0] + progress.blocks[1], progress.energy[0] + progress.energy[1]);
    return 0;
}
