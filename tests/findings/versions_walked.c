/* A database with versions of rows: each update writes a new version that points to the one before, so that the
   versions of one row lie wherever the log was then. Readers with an old snapshot walk from the newest to theirs.
   Cause: the chase. FIXED has each row's versions one after the other: 1.8 to 2.2 times the speed. */
#include "finding.h"

enum { Rows = 1 << 20, Versions = 6 << 20 };

struct version {
    uint64_t stamp;
    struct version *older;
    uint32_t row;
    uint32_t balance[11];
};

static struct version **newest;

/* The versions of a row one after the other, as a vacuum leaves them. */
__attribute__((unused)) static void compact(void) {
    struct version *to = huge((size_t)Versions * sizeof *to);
    for (size_t r = 0; r < Rows; r++) {
        struct version **link = &newest[r];
        for (; *link != NULL; link = &to++->older) {
            *to = **link;
            *link = to;
        }
    }
}

static uint32_t balance_at(size_t row, uint64_t snapshot) {
    const struct version *at = newest[row];
    while (at != NULL && at->stamp > snapshot) at = at->older;
    return at == NULL ? 0 : at->balance[3];
}

int main(int argc, char **argv) {
    double until = limit_of(argc, argv);
    struct version *log = huge((size_t)Versions * sizeof *log);
    newest = huge(Rows * sizeof *newest);
    uint64_t random = 2463534242u, sum = 0;
    for (size_t v = 0; v < Versions; v++) {
        uint32_t row = next_random(&random) % Rows;
        log[v] = (struct version){.stamp = v, .older = newest[row], .row = row};
        log[v].balance[3] = (uint32_t)random;
        newest[row] = &log[v];
    }
#ifdef FIXED
    compact();
#endif
    double began = seconds();
    long reads = 0;
    for (; seconds() < began + until; reads += 1000)
        for (int i = 0; i < 1000; i++) sum += balance_at(next_random(&random) % Rows, Versions / 10);
    keep_word(sum);
    printf("%.2f million reads/s\n", (double)reads / 1e6 / (seconds() - began));
}
