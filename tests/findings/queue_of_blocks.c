/* Puts messages into a queue, each in a block of its own, and takes them out. */
#include "finding.h"
__attribute__((noinline)) static uint64_t exchange(uint64_t *state) {
    static char *queue[256];
    static unsigned head;
    uint64_t size = 40 + next_random(state) % 200;
    char *message = malloc(size);
    message[0] = (char)size;
    char *old = queue[head & 255];
    queue[head++ & 255] = message;
    uint64_t value = old == NULL ? 0 : (uint64_t)old[0];
    free(old);
    return value;
}
int main(int argc, char **argv) {
    double limit = limit_of(argc, argv);
    uint64_t state = 88172645463325252u;
    while (seconds() < limit)
        for (int round = 0; round < 1000; round++) keep_word(exchange(&state));
}
