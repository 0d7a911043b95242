/* One thread writes bytes into a ring as far as another has read, whose position it must load again before each byte. */
#include "finding.h"
#include <stdatomic.h>

enum { RING = 1 << 16 };

static struct { _Atomic size_t read; char apart[120]; _Atomic size_t written; char apart_too[120]; uint8_t bytes[RING]; } ring;
static _Atomic int over;

static void *reader(void *unused) {
    (void)unused;
    size_t at = 0;
    uint64_t sum = 0;
    while (!atomic_load_explicit(&over, memory_order_relaxed)) {
        size_t end = atomic_load_explicit(&ring.written, memory_order_acquire);
        while (at < end) sum += ring.bytes[at++ % RING];
        atomic_store_explicit(&ring.read, at, memory_order_release);
    }
    keep_word(sum);
    return NULL;
}

__attribute__((noinline)) static void write_bytes(size_t count) {
    for (size_t i = 0; i < count; i++) {
        size_t at = atomic_load_explicit(&ring.written, memory_order_relaxed);
        while (at - atomic_load_explicit(&ring.read, memory_order_acquire) >= RING) {
            if (atomic_load_explicit(&over, memory_order_relaxed)) return;
        }
        ring.bytes[at % RING] = (uint8_t)at;
        atomic_store_explicit(&ring.written, at + 1, memory_order_release);
    }
}

int main(int argc, char **argv) {
    double limit = limit_of(argc, argv);
    pthread_t thread;
    pthread_create(&thread, NULL, reader, NULL);
    while (seconds() < limit) write_bytes(1 << 16);
    over = 1;
    pthread_join(thread, NULL);
}
