/* A document store of 64,000 documents of 4 KB, each with a header of one line before its text: clients ask whether
   what they hold is still current, and only the header is read, half of its line. The lines fit in the cache, the
   translations of the 64,000 pages do not, and no look-up waits for another. Cause: translation. FIXED has the store
   in huge pages: 1.4 to 2.2 times the speed (the other users of the cache make the difference). */
#include "finding.h"

enum { Documents = 64000 };

struct document {
    uint64_t etag, version, deleted, length, created, modified, owner, links;
    char text[4096];
};

static inline uint64_t mixed(uint64_t key) {
    key = (key ^ key >> 33) * 0xff51afd7ed558ccdu;
    return key ^ key >> 29;
}

static uint64_t current(const struct document *document, uint64_t id, uint64_t version) {
    uint64_t wrong = (document->etag ^ id) | (document->version ^ version) | document->deleted;
    return (wrong == 0) + document->length;
}

int main(int argc, char **argv) {
    double until = limit_of(argc, argv);
    size_t bytes = sizeof(struct document) * (size_t)Documents;
#ifdef FIXED
    struct document *store = huge(bytes);
#else
    struct document *store = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (store == MAP_FAILED) return 2;
    madvise(store, bytes, MADV_NOHUGEPAGE);
    memset(store, 0, bytes);
#endif
    for (uint64_t id = 0; id < Documents; id++) {
        struct document *document = &store[id];
        document->etag = id;
        document->version = mixed(id) & 1;
        document->length = sizeof document->text;
    }
    uint64_t random = 321, found = 0;
    double began = seconds();
    long asked = 0;
    for (; seconds() < began + until; asked += 1000)
        for (int i = 0; i < 1000; i++) {
            uint64_t id = (next_random(&random) >> 32) * Documents >> 32;
            found += current(&store[id], id, 0);
        }
    keep_word(found);
    printf("%.2f million questions/s\n", (double)asked / 1e6 / (seconds() - began));
}
