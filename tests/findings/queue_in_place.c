/* Puts messages into the places of a queue. */
#include "finding.h"
__attribute__((noinline)) static uint64_t exchange(uint64_t *state) {
    static struct { uint64_t size; char text[240]; } queue[256];
    static unsigned head;
    uint64_t size = 40 + next_random(state) % 200, old = queue[head & 255].size;
    queue[head++ & 255].size = size;
    return old;
}
int main(int argc, char **argv) {
    double limit = limit_of(argc, argv);
    uint64_t state = 88172645463325252u;
    while (seconds() < limit)
        for (int round = 0; round < 1000; round++) keep_word(exchange(&state));
}
