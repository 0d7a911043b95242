/* An interpreter loads the same few registers over and over, but another instruction has changed each in between. */
#include "finding.h"
enum { ADD, XOR, SHIFT, JUMP };
struct code { uint8_t what, to, from; };
__attribute__((noinline)) static void interpret(const struct code *code, uint64_t *registers, int steps) {
    for (const struct code *at = code; steps > 0; steps--, at++) {
        switch (at->what) {
        case ADD: registers[at->to] += registers[at->from]; break;
        case XOR: registers[at->to] ^= registers[at->from]; break;
        case SHIFT: registers[at->to] = registers[at->from] << 1 | registers[at->from] >> 63; break;
        default: at = code - 1;
        }
    }
}
int main(int argc, char **argv) {
    static const struct code code[] = {{ADD, 0, 1}, {XOR, 2, 0}, {SHIFT, 1, 2}, {ADD, 3, 1}, {XOR, 0, 3},
                                       {SHIFT, 2, 0}, {ADD, 1, 3}, {SHIFT, 3, 3}, {JUMP, 0, 0}};
    uint64_t registers[4] = {1, 2, 3, 4};
    double limit = limit_of(argc, argv);
    while (seconds() < limit) interpret(code, registers, 1 << 18);
    keep_word(registers[0]);
}
