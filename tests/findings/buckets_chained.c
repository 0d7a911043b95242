/* Looks keys up in a hash table of far too few buckets: some thirty entries each, hung one on the other all over memory. */
#include "finding.h"
enum { ENTRIES = 16 << 20, BUCKETS = 512 << 10 };
struct entry { struct entry *next; uint64_t key, value, spare; };
static struct entry *buckets[BUCKETS];
static size_t bucket_of(uint64_t key) { return key * 0x9e3779b97f4a7c15u >> 45; }
__attribute__((noinline)) static uint64_t look_up(uint64_t key) {
    for (struct entry *entry = buckets[bucket_of(key)]; entry != NULL; entry = entry->next)
        if (entry->key == key) return entry->value;
    return 0;
}
int main(int argc, char **argv) {
    struct entry *entries = huge(ENTRIES * sizeof *entries);
    for (uint64_t i = 0; i < ENTRIES; i++) {
        uint64_t key = (i + 1) * 0xd1342543de82ef95u;
        struct entry **bucket = &buckets[bucket_of(key ^= key >> 29)];
        entries[i] = (struct entry){*bucket, key, i, 0};
        *bucket = &entries[i];
    }
    uint64_t random = 88172645463325252u, sum = 0;
    double limit = limit_of(argc, argv) + seconds();
    while (seconds() < limit)
        for (int i = 0; i < 10000; i++) sum += look_up(entries[next_random(&random) % ENTRIES / 2].key + sum % 2);
    keep_word(sum);
}
