/* Starts a thread per task, whose large array on the stack is given back to the system when it ends. */
#include "finding.h"
enum { NOTES = 1 << 20 };
__attribute__((noinline)) static void *task(void *seed) {
    uint64_t notes[NOTES], sum = 0;
    for (size_t i = 0; i < NOTES; i++) notes[i] = i * (uintptr_t)seed;
    keep_word((uintptr_t)notes);
    for (size_t i = 0; i < NOTES; i += 64) sum += notes[i];
    keep_word(sum);
    return NULL;
}
int main(int argc, char **argv) {
    double limit = limit_of(argc, argv);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 12 << 20);
    for (uintptr_t round = 1; seconds() < limit; round++) {
        pthread_t worker;
        if (pthread_create(&worker, &attributes, task, (void *)round) != 0) return 2;
        pthread_join(worker, NULL);
    }
}
