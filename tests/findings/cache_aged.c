/* The aging of an LRU cache: 8 million entries, linked in the order of their last use, which by now is any order; the
   sweep goes along the links and asks a policy about each entry. Each step waits for the load of the one before.
   512 MB in huge pages: the caches hold little of it, and page walks are rare.
   Fixed (-DFIXED: entries lie in the order of the list) a sweep is eleven times as fast. */
#include "finding.h"

enum { ENTRIES = 8 << 20 };

struct entry { struct entry *older; uint64_t key; uint32_t hits, age, bytes; char value[36]; };
struct cache { struct entry *newest; uint64_t expired_bytes; };
typedef int (*policy)(const struct entry *entry, uint32_t now);

static int too_old(const struct entry *entry, uint32_t now) { return now - entry->age > 100 && entry->hits < 4; }

static uint64_t sweep(struct cache *cache, policy expired, uint32_t now, uint64_t steps) {
    static struct entry *at;
    uint64_t count = 0;
    for (uint64_t i = 0; i < steps; i++) {
        if (at == NULL) at = cache->newest;
        if (expired(at, now)) {
            cache->expired_bytes += at->bytes;
            count++;
        }
        at = at->older;
    }
    return count;
}

int main(int argc, char **argv) {
    double limit = limit_of(argc, argv);
    struct entry *entries = huge(ENTRIES * sizeof *entries);
    uint32_t *order = huge(ENTRIES * sizeof *order);
    for (uint32_t i = 0; i < ENTRIES; i++) order[i] = i;
#ifndef FIXED
    uint64_t state = 7;
    for (uint32_t i = ENTRIES - 1; i > 0; i--) {
        uint32_t other = (uint32_t)(next_random(&state) % (i + 1)), kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
#endif
    for (uint32_t i = 0; i < ENTRIES; i++)
        entries[order[i]] = (struct entry){.older = i + 1 < ENTRIES ? &entries[order[i + 1]] : NULL, .key = i,
                                           .hits = i % 8, .age = i % 300, .bytes = 36};
    struct cache cache = {&entries[order[0]], 0};
    double begun = seconds();
    uint64_t expired = 0;
    long rounds = 0;
    while (seconds() < limit + begun) {
        expired += sweep(&cache, too_old, 350, 100000);
        rounds++;
    }
    printf("%ld rounds, %lu expired\n", rounds, expired);
    return 0;
}
