/* The same shape, but the helper looks up what depends on the element. */
#include "finding.h"
static uint32_t table[1024];
static inline uint32_t look_up(uint32_t key) { return *(volatile uint32_t *)&table[key & 1023]; }
enum { N = 2048 };
static uint32_t a[N], b[N];
__attribute__((noinline)) static void translate(void) {
    for (size_t i = 0; i < N; i++) b[i] = look_up(a[i]) + look_up(a[i] + 1);
}
int main(int argc, char **argv) {
    double limit = limit_of(argc, argv);
    for (size_t i = 0; i < N; i++) a[i] = (uint32_t)(i * 2654435761u >> 7);
    for (size_t i = 0; i < 1024; i++) table[i] = (uint32_t)i * 3;
    while (seconds() < limit)
        for (int round = 0; round < 1000; round++) translate();
}
