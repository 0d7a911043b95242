/* A physics engine's solver: two threads relax their own contacts, and each adds up its error in its own slot of one
   array, next to the other's; the monitor reads them, so contacts are counted by atomic additions. Each thread writes
   only what is its own; the cache line with both slots goes to and fro.
   Fixed (-DFIXED: slots 128 bytes apart) seven times as many rounds are done */
#include "finding.h"

#ifdef FIXED
#define SLOT_BYTES 128
#else
#define SLOT_BYTES 24
#endif

struct contact { float normal, depth, bias, impulse; };
struct slot { double error; int64_t active; char pad[SLOT_BYTES - 16]; };
struct worker { int me; double limit; long rounds; };

enum { CONTACTS = 4096 };
static struct slot slots[2] __attribute__((aligned(128)));
static struct contact contacts[2][CONTACTS];

static void relax(struct contact *c, struct slot *mine) {
    float wanted = c->bias - c->depth * 0.2f - c->normal;
    float change = wanted - c->impulse;
    c->impulse += change * 0.5f;
    mine->error += (double)(change * change);
    __atomic_fetch_add(&mine->active, change > 1e-3f || change < -1e-3f, __ATOMIC_RELAXED);
}

static void *solve(void *argument) {
    struct worker *w = argument;
    struct contact *own = contacts[w->me];
    while (seconds() < w->limit) {
        for (int pass = 0; pass < 8; pass++)
            for (int i = 0; i < CONTACTS; i++) relax(&own[i], &slots[w->me]);
        w->rounds++;
    }
    return NULL;
}

int main(int argc, char **argv) {
    double limit = limit_of(argc, argv);
    struct worker workers[2] = {{0, limit, 0}, {1, limit, 0}};
    for (int t = 0; t < 2; t++)
        for (int i = 0; i < CONTACTS; i++) contacts[t][i] = (struct contact){1.0f, 0.1f * (float)(i % 7), 0.5f, 0.0f};
    pthread_t thread;
    if (pthread_create(&thread, NULL, solve, &workers[1])) return 2;
    solve(&workers[0]);
    pthread_join(thread, NULL);
    printf("%ld rounds, error %g\n", workers[0].rounds + workers[1].rounds, slots[0].error + slots[1].error);
    return 0;
}
