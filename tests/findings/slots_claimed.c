/* Two threads claim free numbers in one word of bits, and give them back. */
#include "finding.h"
static _Alignas(128) uint64_t taken;
static double limit;
__attribute__((noinline)) static int claim(void) {
    uint64_t seen = __atomic_load_n(&taken, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&taken, &seen, seen | (seen + 1), 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {}
    return __builtin_ctzll(~seen);
}
__attribute__((noinline)) static void give_back(int slot) {
    __atomic_fetch_and(&taken, ~((uint64_t)1 << slot), __ATOMIC_RELEASE);
}
static void *client(void *unused) {
    while (seconds() < limit)
        for (int i = 0; i < 1000; i++) give_back(claim());
    return unused;
}
int main(int argc, char **argv) {
    limit = limit_of(argc, argv);
    pthread_t other;
    pthread_create(&other, NULL, client, NULL);
    client(NULL);
    pthread_join(other, NULL);
}
