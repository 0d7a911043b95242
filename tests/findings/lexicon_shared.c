/* Two threads read one table all the time, but neither writes to it. */
#include "finding.h"
enum { WORDS = 2048 };
static _Alignas(128) uint64_t lexicon[WORDS];
static double limit;
__attribute__((noinline)) static uint64_t translate(uint64_t *text) {
    uint64_t sum = 0;
    for (int i = 0; i < 100000; i++) sum += lexicon[next_random(text) % WORDS] ^ lexicon[sum % WORDS];
    return sum;
}
static void *translator(void *seed) {
    uint64_t text = (uint64_t)(uintptr_t)seed;
    while (seconds() < limit) keep_word(translate(&text));
    return NULL;
}
int main(int argc, char **argv) {
    limit = limit_of(argc, argv);
    for (uint64_t i = 0; i < WORDS; i++) lexicon[i] = i * 0x9e3779b97f4a7c15u >> 20;
    pthread_t other;
    pthread_create(&other, NULL, translator, (void *)12345);
    translator((void *)98765);
    pthread_join(other, NULL);
}
