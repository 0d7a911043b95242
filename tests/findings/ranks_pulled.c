/* PageRank by pulling: each vertex sums the ranks of eight neighbours anywhere among 168 million, 671 MB on pages of 4
   KiB; the loads are independent of each other. Cause: each needs a page walk, too. FIXED asks for huge pages: 1.6 to
   1.7 times the speed. */
#include "finding.h"

enum { VERTICES = 160 << 20, EDGES = 24 << 20, DEGREE = 8 };

struct graph {
    uint32_t *start, *source; /* CSR */
    float *rank, *next;
    size_t vertices;
};

static void *array(size_t bytes) {
    void *at = aligned_alloc(2u << 20, (bytes + (2u << 20) - 1) >> 21 << 21);
    if (at == NULL) exit(2);
#ifdef FIXED
    madvise(at, bytes, MADV_HUGEPAGE);
#else
    madvise(at, bytes, MADV_NOHUGEPAGE);
#endif
    return at;
}

static void pull(const struct graph *graph, size_t first, size_t last) {
    for (size_t v = first; v < last; v++) {
        float sum = 0.f;
        for (uint32_t e = graph->start[v]; e < graph->start[v + 1]; e++) sum += graph->rank[graph->source[e]];
        graph->next[v] = 0.15f + 0.85f * sum / DEGREE;
    }
}

int main(int argc, char **argv) {
    double until = limit_of(argc, argv);
    /* The vertices of one part are computed; their neighbours are anywhere. */
    size_t part = EDGES / DEGREE;
    struct graph graph = {array((part + 1) * 4), array((size_t)EDGES * 4), array((size_t)VERTICES * 4), array(part * 4),
                          part};
    uint64_t random = 4242;
    for (size_t e = 0; e < EDGES; e++) graph.source[e] = (uint32_t)(next_random(&random) % VERTICES);
    for (size_t v = 0; v <= part; v++) graph.start[v] = (uint32_t)(v * DEGREE);
    for (size_t v = 0; v < VERTICES; v++) graph.rank[v] = 1.f;
    double begun = seconds();
    long pulled = 0;
    for (size_t at = 0; seconds() < until; at = (at + 10000) % (part - 10000), pulled += 10000)
        pull(&graph, at, at + 10000);
    keep(graph.next[5]);
    printf("%.2f million edges/s, begun at %.2f s\n", (double)pulled * DEGREE / 1e6 / (seconds() - begun), begun);
    return 0;
}
