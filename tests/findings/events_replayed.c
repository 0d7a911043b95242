/* Near-miss of pointer-chase: a simulation goes along a linked list of events, 400 MB of them, but they were allocated
   one after the other, so that the next one is there before it is asked for; and each event is worked on for a while by
   a handler of its kind. As an array, without links, it is not faster by much: the time is in the handlers. */
#include "finding.h"

enum { EVENTS = 8 << 20 };

struct state { double time, heat, queue; };
struct event { struct event *next; void (*handler)(struct state *, const struct event *); double delay, size; uint64_t id[4]; };

static void arrive(struct state *s, const struct event *e) {
    double left = s->queue;
    for (int i = 0; i < 12; i++) left = left * 0.999 + e->size / (1.0 + left);
    s->queue = left;
}
static void serve(struct state *s, const struct event *e) {
    double left = s->queue;
    for (int i = 0; i < 12; i++) left = left / (1.0 + e->delay) + 0.01;
    s->queue = left;
}
static void cool(struct state *s, const struct event *e) {
    for (int i = 0; i < 12; i++) s->heat = s->heat * 0.98 + 1.0 / (2.0 + s->heat * e->delay);
}

int main(int argc, char **argv) {
    double limit = limit_of(argc, argv);
    struct event *events = huge(EVENTS * sizeof *events);
    void (*const handlers[])(struct state *, const struct event *) = {arrive, serve, cool, serve};
    for (uint32_t i = 0; i < EVENTS; i++)
        events[i] = (struct event){&events[(i + 1) % EVENTS], handlers[i % 4], 0.001 * (i % 10), 0.5, {i}};
    struct state state = {0};
    double begun = seconds();
    const struct event *at = events;
    long rounds = 0;
    for (; seconds() < limit + begun; rounds++)
        for (int i = 0; i < 10000; i++, at = at->next) {
            at->handler(&state, at);
            state.time += at->delay;
        }
    printf("%ld rounds, queue %g\n", rounds, state.queue);
    return 0;
}
