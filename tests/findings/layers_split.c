/* Inference with a small network, 24 layers of 64 x 64: the two threads share each layer's outputs and meet at a
   barrier after it, for a microsecond or two of work. Cause: the barriers. FIXED shares the inputs: each thread takes
   its own through all layers: 3.7 to 5.7 times the speed. */
#include "finding.h"

enum { Layers = 24, Width = 64, Inputs = 64 };

static float weight[Layers][Width][Width], bias[Layers][Width], input[Inputs][Width];
static _Alignas(128) float activation[2][2][Width];
static double result[2][16];
static pthread_barrier_t meeting;
static double until;
static int over;
static long batches;

static void layer(int l, const float *from, float *to, int first, int last) {
    for (int o = first; o < last; o++) {
        float sum[4] = {bias[l][o], 0.f, 0.f, 0.f};
        for (int i = 0; i < Width; i += 4)
            for (int k = 0; k < 4; k++) sum[k] += weight[l][o][i + k] * from[i + k];
        float all = sum[0] + sum[1] + sum[2] + sum[3];
        to[o] = all > 0.f ? all : .01f * all;
    }
}

static void *infer(void *which) {
    int t = (int)(intptr_t)which;
    while (!over) {
#ifdef FIXED
        for (int n = t; n < Inputs; n += 2) {
            const float *from = input[n];
            for (int l = 0; l < Layers; l++, from = activation[t][~l & 1])
                layer(l, from, activation[t][l & 1], 0, Width);
            result[t][0] += from[0];
        }
#else
        for (int n = 0; n < Inputs; n++) {
            const float *from = input[n];
            for (int l = 0; l < Layers; l++, from = activation[0][~l & 1]) {
                layer(l, from, activation[0][l & 1], t * Width / 2, (t + 1) * Width / 2);
                pthread_barrier_wait(&meeting);
            }
            if (t == 0) result[t][0] += from[0];
        }
#endif
        pthread_barrier_wait(&meeting);
        if (t == 0) {
            batches++;
            over = seconds() >= until;
        }
        pthread_barrier_wait(&meeting);
    }
    return NULL;
}

int main(int argc, char **argv) {
    until = limit_of(argc, argv);
    uint64_t random = 24;
    float *all = &weight[0][0][0];
    for (int w = 0; w < Layers * Width * Width; w++) all[w] = (float)(next_random(&random) % 200) * .003f - .3f;
    for (int i = 0; i < Inputs * Width; i++) input[i / Width][i % Width] = (float)(next_random(&random) % 100) * .01f;
    pthread_barrier_init(&meeting, NULL, 2);
    pthread_t helper;
    pthread_create(&helper, NULL, infer, (void *)1);
    infer(NULL);
    pthread_join(helper, NULL);
    keep(result[0][0] + result[1][0]);
    printf("%.2f thousand inputs/s\n", (double)batches * Inputs / 1e3 / seconds());
}
