/* A mixing desk: two threads, a bus each, and the meters of both buses in one line, written by both: looks like
   false sharing, but a meter is written once in 512 samples, each of which takes a filter of two stages. ALIKE gives
   each meter a line of its own. Measured: 1.00 times the speed (per CPU time). */
#include <math.h>
#include "finding.h"

enum { Samples = 512 };

struct meter {
    float peak, power;
    unsigned clips;
#ifdef ALIKE
} __attribute__((aligned(128)));
#else
};
#endif

static struct meter meters[2] __attribute__((aligned(128)));
static double until;

struct bus {
    pthread_t thread;
    struct meter *meter;
    float low[2], band[2], cut, resonance;
    double blocks;
    uint64_t random;
} __attribute__((aligned(128)));

static float filter(struct bus *bus, float in) {
    for (int stage = 0; stage < 2; stage++) {
        bus->low[stage] += bus->cut * bus->band[stage];
        float high = in - bus->low[stage] - bus->resonance * bus->band[stage];
        bus->band[stage] += bus->cut * high;
        in = bus->low[stage];
    }
    return in;
}

static void *mix(void *argument) {
    struct bus *bus = argument;
    float block[Samples];
    for (; seconds() < until; bus->blocks += 1) {
        float peak = 0.f, power = 0.f;
        for (int s = 0; s < Samples; s++) {
            block[s] = filter(bus, (float)(next_random(&bus->random) >> 40) * 0x1p-23f - 1.f);
            float loud = fabsf(block[s]);
            power += loud * loud;
            if (loud > peak) peak = loud;
        }
        bus->meter->peak = peak > bus->meter->peak * .99f ? peak : bus->meter->peak * .99f;
        bus->meter->power = power / Samples;
        if (peak > 1.f) bus->meter->clips++;
    }
    return NULL;
}

int main(int argc, char **argv) {
    until = limit_of(argc, argv);
    static struct bus buses[2];
    for (int b = 0; b < 2; b++) {
        buses[b] = (struct bus){.meter = &meters[b], .cut = .3f, .resonance = .7f, .random = 5u + (unsigned)b};
        pthread_create(&buses[b].thread, NULL, mix, &buses[b]);
    }
    for (int b = 0; b < 2; b++) pthread_join(buses[b].thread, NULL);
    keep(meters[0].peak + meters[1].power);
    printf("%.2f million samples/s\n", (buses[0].blocks + buses[1].blocks) * Samples / 1e6 / until);
}
