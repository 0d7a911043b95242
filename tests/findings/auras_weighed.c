/* A game weighs the auras of 6,000 units of 96 bytes by one of their fields each: a twenty-fourth of what it touches,
   but the 576 KB stay in the second-level cache, and a weight takes a root, a division and a polynomial. ALIKE holds
   the field in an array of its own: 0.97 times the speed. */
#include <math.h>
#include "finding.h"

enum { UNITS = 6000 };

struct unit {
    float position[3], speed[3], facing[4], aura, armour;
    uint32_t flags, owner, target;
    uint8_t inventory[36];
};
_Static_assert(sizeof(struct unit) == 96, "one and a half lines");

typedef float weigher(float aura, float before);

static float of_healers(float aura, float before) {
    float t = sqrtf(aura + before * 0.25f), u = t / (1.f + aura);
    return ((((u * 0.1f + 0.2f) * u + 0.3f) * u + 0.4f) * u + 0.5f) * u;
}
static float of_fighters(float aura, float before) {
    float t = sqrtf(aura * 2.f + before), u = (t + 1.f) / (2.f + aura);
    return (((u * 0.5f - 0.2f) * u + 0.1f) * u - 0.4f) * u;
}
static weigher *const kinds[] = {of_healers, of_fighters};

int main(int argc, char **argv) {
    double until = limit_of(argc, argv);
#ifdef ALIKE
    float *auras = malloc(UNITS * sizeof *auras);
#define AURA(u) auras[u]
#else
    struct unit *units = calloc(UNITS, sizeof *units);
#define AURA(u) units[u].aura
#endif
    for (int u = 0; u < UNITS; u++) AURA(u) = (float)(u % 97);
    long ticks = 0;
    float weight = 0.f;
    for (; seconds() < until; ticks++)
        for (int u = 0; u < UNITS; u++) weight = fabsf(kinds[u / (UNITS / 2)](AURA(u), weight));
    keep(weight);
    printf("%.1f ticks/s\n", (double)ticks / seconds());
    return 0;
}
