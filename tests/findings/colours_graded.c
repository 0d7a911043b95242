/* Two threads go through an image of 400 MB of floats, front to back, again and again, as fast as they can: but each
   value takes a power, and the memory brings much more than they ask for. ALIKE has the values in 16 bits, half of the
   bytes: 0.83 to 0.94 times the speed. */
#include <math.h>
#include "finding.h"

enum { Values = 100 << 20, Step = 4096 };

#ifdef ALIKE
typedef uint16_t value;
#define SCALE (1.f / 65535.f)
#else
typedef float value;
#define SCALE 1.f
#endif

static value *image;
static double until, began;

static void *grade(void *which) {
    size_t t = (size_t)(intptr_t)which, first = t * (Values / 2), at = first;
    long steps = 0;
    float sum = 0.f;
    for (; seconds() < began + until; steps++) {
        for (size_t v = at; v < at + Step; v++) sum += powf((float)image[v] * SCALE, 1.f / 2.2f);
        at += Step;
        if (at == first + Values / 2) at = first;
    }
    keep(sum);
    return (void *)steps;
}

int main(int argc, char **argv) {
    until = limit_of(argc, argv);
    image = huge(sizeof(value) * Values);
    uint64_t random = 22;
    for (int v = 0; v < Values; v++) {
        float drawn = (float)(next_random(&random) & 65535) / 65535.f;
        image[v] = (value)(drawn / SCALE);
    }
    began = seconds();
    pthread_t other;
    void *others;
    pthread_create(&other, NULL, grade, (void *)1);
    long own = (long)grade(NULL);
    pthread_join(other, &others);
    printf("%.2f million values/s\n", (double)(own + (long)others) * Step / 1e6 / (seconds() - began));
}
