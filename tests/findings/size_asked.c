/* Asks a vector for its size in the condition of a loop. */
#include "finding.h"
struct vector { struct { uint64_t used, space; } *head; uint32_t *items; };
__attribute__((noinline)) uint64_t size_of(const struct vector *vector) { return vector->head->used; }
__attribute__((noinline)) static void double_all(struct vector *vector) {
    uint32_t *items = vector->items;
    for (uint64_t i = 0; i < size_of(vector); i++) items[i] *= 2;
}
int main(int argc, char **argv) {
    double limit = limit_of(argc, argv);
    struct vector vector = {huge(64), huge(4096 * sizeof(uint32_t))};
    vector.head->used = 4096;
    while (seconds() < limit)
        for (int round = 0; round < 100; round++) double_all(&vector);
}
