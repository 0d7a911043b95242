/* Takes one item after the other from a stack: its size is read each time, and changes. */
#include "finding.h"
struct stack { struct { uint64_t used, space; } *head; uint32_t *items; };
__attribute__((noinline)) uint32_t pop(struct stack *stack) { return stack->items[--stack->head->used]; }
__attribute__((noinline)) static uint64_t empty(struct stack *stack) {
    uint64_t sum = 0;
    stack->head->used = 4096;
    for (int i = 0; i < 4096; i++) sum += pop(stack);
    return sum;
}
int main(int argc, char **argv) {
    double limit = limit_of(argc, argv);
    struct stack stack = {huge(64), huge(4096 * sizeof(uint32_t))};
    while (seconds() < limit)
        for (int round = 0; round < 100; round++) keep_word(empty(&stack));
}
