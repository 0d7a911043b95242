/* Near-miss of allocator-churn: an image editor allocates a scratch layer for each stroke and frees it, thousands of
   times per second; but the layer is 16 KB, comes from the heap's free list without the kernel, and the stroke computes
   far longer on it. Without malloc it is as fast. */
#include "finding.h"
#include <math.h>

enum { SIDE = 64 };

struct stroke { float x, y, radius, strength; };
struct canvas { float pixels[SIDE * SIDE]; };

static float brush(const struct stroke *s, int x, int y) {
    float dx = (float)x - s->x, dy = (float)y - s->y;
    float far = sqrtf(dx * dx + dy * dy) / s->radius;
    return far < 1.0f ? s->strength * (1.0f - far) / (1.0f + far * far) : 0.0f;
}

static float *draw(const struct stroke *s) {
    float *layer = malloc(SIDE * SIDE * sizeof *layer);
    if (layer == NULL) exit(2);
    for (int y = 0; y < SIDE; y++)
        for (int x = 0; x < SIDE; x++) layer[y * SIDE + x] = brush(s, x, y);
    return layer;
}

static void blend(struct canvas *canvas, const float *layer) {
    for (int i = 0; i < SIDE * SIDE; i++) canvas->pixels[i] = canvas->pixels[i] * 0.99f + layer[i];
}

int main(int argc, char **argv) {
    double limit = limit_of(argc, argv);
    static struct canvas canvas;
    long rounds = 0;
    for (; seconds() < limit; rounds++) {
        struct stroke stroke = {(float)(rounds % 61), (float)(rounds % 47), 40.0f, 0.5f};
        float *layer = draw(&stroke);
        blend(&canvas, layer);
        free(layer);
    }
    printf("%ld rounds, %g\n", rounds, (double)canvas.pixels[100]);
    return 0;
}
