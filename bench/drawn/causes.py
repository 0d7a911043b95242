"""Drawn programs that are slow for a known reason, each with a repaired twin and a near-miss that looks like it and is not slow.

What for: recall, precision and gains of findings on programs that nobody has seen. What not: running them (drawn_causes.py).

A cause is one text in which VARIANT says which: 0 slow, 1 repaired (the same number of repeats: what it is
quicker by is the true gain; where a compiler has repaired the slow one itself there is none, and none is asked for), 2 near-miss.
`pass(thread, threads)` is one repeat; names and sizes are drawn. `wanted`: any of these findings is a hit. `allowed`: also true of
the slow one, beside what is wanted; they count neither way.
"""
import random
from typing import NamedTuple

SLOW, REPAIRED, NEAR = 0, 1, 2
NAMES = ("advance", "collect", "digest", "evaluate", "fold", "handle", "inspect", "measure", "process", "refresh",
         "settle", "update")


class Cause(NamedTuple):
    name: str
    source: str
    wanted: tuple
    allowed: tuple
    flags: tuple
    threads: int
    detail: str

    @property
    def repeats(self):
        """Fixed where only the first repeat is slow."""
        return 1 if self.name == "fault-startup" else None


def text(setup, work, declarations="", threads=1):
    """A program around `pass`. All three variants share what no #if parts."""
    start = f"    drawn_parallel(0, {threads}, pass);" if threads > 1 else (
        "    for (size_t repeat = 0; repeat < drawn_repeats[0]; repeat++)\n        pass(0, 1);")
    return (f'#include "drawn.h"\n#include <stdlib.h>\n#include <string.h>\n'
            f"#define SLOW 0\n#define REPAIRED 1\n#define NEAR 2\n{declarations}\n"
            f"static NOINLINE void pass(int thread, int threads)\n{{\n    (void)threads;\n{work}}}\n\n"
            f"int main(int count, char **words)\n{{\n    drawn_begin(count, words, 1);\n{setup}    drawn_phase_begins(0);\n{start}\n"
            f"    drawn_phase_ends(0);\n    return drawn_end();\n}}\n")


def strided(rng, kind, name):
    side = rng.randrange(3000, 6000, 8)
    small = rng.randrange(32, 96, 8)
    declarations = (f"static {kind} *grid, *sums;\nstatic const size_t side = VARIANT == NEAR ? {small} : {side};\n"
                    f"static NOINLINE void {name}(void)\n{{\n#if VARIANT == REPAIRED\n"
                    f"    for (size_t i = 0; i < side; i++) {{\n        for (size_t j = 0; j < side; j++)\n"
                    f"            sums[j] += grid[i * side + j];\n#else\n"
                    f"    for (size_t j = 0; j < side; j++) {{\n        for (size_t i = 0; i < side; i++)\n"
                    f"            sums[j] += grid[i * side + j];\n#endif\n"
                    f"        DRAWN_LAP; /* a compiler may not change the order */\n    }}\n}}\n")
    setup = (f"    grid = ({kind} *)drawn_array(side * side * sizeof({kind}), 0);\n    drawn_fill_{kind}(grid, side * side);\n"
             f"    sums = ({kind} *)drawn_array(side * sizeof({kind}), 0);\n    drawn_fill_{kind}(sums, side);\n")
    laps = max(1, (1 << 22) // small ** 2)
    work = (f"    for (int lap = 0; lap < (VARIANT == NEAR ? {laps} : 1); lap++)\n        {name}();\n"
            f"    drawn_sum[thread][0] += (double)sums[1];\n")
    return ("strided-walk",), ("tlb-bound", "low-line-use", "fault-startup", "repeated-loads"), setup, work, declarations, 1, \
        f"columns of {side} x {side}"


def unused_fields(rng, kind, name):
    size = 4 if kind in ("float", "int32_t") else 8
    fields = rng.choice((24, 32, 40, 48)) // size
    n = rng.randrange(100, 200) * (1 << 20) // (fields * size)
    used = rng.randrange(fields)
    every = " + ".join(f"records[i].f[{f}]" for f in range(fields))
    declarations = (f"struct record {{\n    {kind} f[{fields}];\n}};\n#if VARIANT == REPAIRED\nstatic {kind} *field;\n#else\n"
                    f"static struct record *records;\n#endif\n"
                    f"static NOINLINE double {name}(void)\n{{\n    {kind} sum = 0;\n    for (size_t i = 0; i < {n}; i++)\n"
                    f"#if VARIANT == SLOW\n        sum += records[i].f[{used}];\n#elif VARIANT == REPAIRED\n        sum += field[i];\n"
                    f"#else\n        sum += {every};\n#endif\n    return (double)sum;\n}}\n")
    setup = (f"#if VARIANT == REPAIRED\n    field = ({kind} *)drawn_array({n} * sizeof({kind}), 0);\n"
             f"    drawn_fill_{kind}(field, {n});\n#else\n"
             f"    records = (struct record *)drawn_array({n} * sizeof(struct record), 0);\n"
             f"    drawn_fill_{kind}(records[0].f, {n * fields});\n#endif\n")
    work = f"    drawn_sum[thread][0] += {name}();\n"
    return ("low-line-use",), ("bandwidth-saturated", "fault-startup", "strided-walk"), setup, work, declarations, 1, \
        f"one of {fields} fields of {size} bytes"


def chase(rng, kind, name):
    node, n = rng.choice((32, 64, 128)), rng.randrange(300000, 2000000)
    small = rng.randrange(64, 200)
    declarations = (f"struct node {{\n    struct node *next;\n    int64_t weight[{node // 8 - 1}];\n}};\nstatic struct node *nodes;\n"
                    f"static const size_t count_of_nodes = VARIANT == NEAR ? {small} : {n};\n"
                    f"static NOINLINE int64_t {name}(void)\n{{\n    int64_t sum = 0;\n    struct node *at = nodes;\n"
                    f"    for (size_t i = 0; i < count_of_nodes; i++) {{\n        sum += at->weight[0];\n        at = at->next;\n    }}\n"
                    f"    return sum;\n}}\n")
    setup = (f"    uint32_t *order = (uint32_t *)drawn_array(count_of_nodes * sizeof(uint32_t), 0);\n"
             f"    drawn_cycle(order, count_of_nodes, {rng.randrange(1 << 30)});\n"
             f"    nodes = (struct node *)drawn_array(count_of_nodes * sizeof(struct node), 0);\n"
             f"    memset(nodes, 1, count_of_nodes * sizeof(struct node));\n    for (size_t i = 0; i < count_of_nodes; i++)\n"
             f"        nodes[i].next = &nodes[VARIANT == REPAIRED ? (i + 1) % count_of_nodes : order[i]];\n")
    work = (f"    for (int lap = 0; lap < (VARIANT == NEAR ? {n // small} : 1); lap++)\n"
            f"        drawn_sum[thread][0] += (double){name}();\n")
    return ("pointer-chase",), ("tlb-bound", "fault-startup", "low-line-use"), setup, work, declarations, 1, \
        f"{n} nodes of {node} bytes"


def scattered_pages(rng, kind, name):
    n = rng.randrange(200, 500) * (1 << 20) // (4 if kind in ("float", "int32_t") else 8)
    declarations = (f"static {kind} *table;\nstatic NOINLINE double {name}(uint64_t *state)\n{{\n    {kind} sum = 0;\n"
                    f"    uint64_t x = *state;\n    for (size_t i = 0; i < 1000000; i++)\n"
                    f"        sum += table[(DRAWN_NEXT(x) >> 32) * (VARIANT == NEAR ? 1500 : {n}) >> 32];\n"
                    f"    *state = x;\n    return (double)sum;\n}}\n")
    setup = (f"    table = ({kind} *)drawn_array({n} * sizeof({kind}), VARIANT == REPAIRED);\n"
             f"    drawn_fill_{kind}(table, VARIANT == NEAR ? 4096 : {n});\n")
    work = f"    static uint64_t state = 1;\n    drawn_sum[thread][0] += {name}(&state);\n"
    return ("tlb-bound",), ("fault-startup", "low-line-use", "bandwidth-saturated"), setup, work, declarations, 1, \
        f"{n} elements of {kind}"


def shared_line(rng, kind, name):
    gap = rng.choice((1, 1, 2, 4))
    work_between = rng.randrange(0, 6)
    kind = rng.choice(("int32_t", "int64_t", "double"))
    declarations = (f"static volatile {kind} *counts;\nstatic NOINLINE void {name}(volatile {kind} *own)\n{{\n    uint64_t x = 1;\n"
                    f"    for (size_t i = 0; i < 1000000; i++) {{\n"
                    + "        DRAWN_NEXT(x);\n" * work_between +
                    f"#if VARIANT == NEAR\n        if ((i & 65535) == 0)\n            *own = *own + ({kind})1;\n"
                    f"        __asm__ volatile(\"\" : \"+r\"(x));\n"
                    f"#else\n        *own = *own + ({kind})(1 + (x >> 63));\n#endif\n    }}\n}}\n")
    setup = (f"    counts = (volatile {kind} *)drawn_array(4096, 0);\n    memset((void *)counts, 0, 4096);\n")
    work = (f"    {name}(&counts[(size_t)thread * (VARIANT == REPAIRED ? {256 // (4 if kind == 'int32_t' else 8)} : {gap})]);\n"
            f"    drawn_sum[thread][0] += 1;\n")
    return ("false-sharing",), ("true-sharing",), setup, work, declarations, 2, f"{kind} {gap} apart, {work_between} steps between"


def fresh_buffers(rng, kind, name):
    size = rng.randrange(34, 80) << 20  # malloc keeps what is smaller, once it was freed (mallopt(3), M_MMAP_THRESHOLD)
    declarations = (f"static unsigned char *kept;\nstatic NOINLINE double {name}(unsigned char *buffer, size_t bytes)\n{{\n"
                    f"    for (size_t i = 0; i < bytes; i += 64)\n        buffer[i] = (unsigned char)i;\n"
                    f"    double sum = 0;\n    for (size_t i = 0; i < bytes; i += {rng.choice((64, 128, 256))})\n"
                    f"        sum += buffer[i];\n    return sum;\n}}\n")
    setup = f"    kept = (unsigned char *)malloc({size});\n"
    work = (f"#if VARIANT == SLOW\n    unsigned char *buffer = (unsigned char *)malloc({size});\n"
            f"    drawn_sum[thread][0] += {name}(buffer, {size});\n    free(buffer);\n"
            f"#elif VARIANT == REPAIRED\n    drawn_sum[thread][0] += {name}(kept, {size});\n#else\n"
            f"    for (int i = 0; i < {size >> 15}; i++) {{\n        unsigned char *buffer = (unsigned char *)malloc(32768);\n"
            f"        drawn_sum[thread][0] += {name}(buffer, 32768);\n        free(buffer);\n    }}\n#endif\n")
    return ("fault-churn",), ("allocator-churn", "kernel-entries", "fault-startup", "strided-walk"), setup, work, declarations, 1, \
        f"{size >> 20} MiB"


def first_touch(rng, kind, name):
    size = rng.randrange(600, 1500) << 20
    passes = rng.randrange(1, 3)
    declarations = (f"static NOINLINE double {name}(double *data, size_t n)\n{{\n    double sum = 0;\n"
                    f"    for (size_t i = 0; i < n; i++)\n        data[i] = (double)(i & 15);\n"
                    f"    for (int pass = 0; pass < {passes}; pass++)\n        for (size_t i = 0; i < n; i++)\n            sum += data[i];\n"
                    f"    return sum;\n}}\n")
    setup = ""
    work = (f"#if VARIANT == NEAR\n    static double *data;\n    if (!data)\n        data = (double *)drawn_array(1 << 18, 0);\n"
            f"    for (int i = 0; i < {size >> 18}; i++)\n        drawn_sum[thread][0] += {name}(data, 1 << 15);\n#else\n"
            f"    static double *data;\n    if (!data)\n        data = (double *)drawn_array({size}, VARIANT == REPAIRED);\n"
            f"    drawn_sum[thread][0] += {name}(data, {size} / 8);\n#endif\n")
    return ("fault-startup",), ("bandwidth-saturated", "non-temporal-stores"), setup, work, declarations, 1, f"{size >> 20} MiB once"


def small_blocks(rng, kind, name):
    size, items, blocks = rng.randrange(16, 400), rng.randrange(2, 8), rng.randrange(3, 8)
    declarations = (f"static NOINLINE uint64_t {name}(unsigned char *scratch, uint64_t x)\n{{\n    for (int i = 0; i < {items}; i++)\n"
                    f"        scratch[i % {size}] = (unsigned char)DRAWN_NEXT(x);\n"
                    f"    return x + scratch[0];\n}}\nstatic unsigned char *volatile kept[8];\n")
    work = (f"    uint64_t x = 1;\n    for (int i = 0; i < 200000; i++) {{\n#if VARIANT == SLOW\n"
            f"        unsigned char *scratch = (unsigned char *)malloc({size});\n"
            f"        for (int j = 0; j < {blocks}; j++)\n            kept[j] = (unsigned char *)malloc({size} + (i & 255));\n"
            f"        x = {name}(scratch, x);\n        free(scratch);\n"
            f"        for (int j = 0; j < {blocks}; j++)\n            free(kept[j]);\n"
            f"#else\n        if (VARIANT == NEAR && i % 10000 == 0) {{\n            free(kept[0]);\n"
            f"            kept[0] = (unsigned char *)malloc({size});\n        }}\n        x = {name}(kept[0], x);\n#endif\n    }}\n"
            f"    drawn_sum[thread][0] += (double)(x & 1023);\n")
    setup = f"    kept[0] = (unsigned char *)malloc({size + 256});\n"
    return ("allocator-churn",), ("repeated-loads",), setup, work, declarations, 1, f"{1 + blocks} of {size} bytes, {items} stores"


def loads_again(rng, kind, name):
    """Bytes may alias everything: what is loaded through a pointer is loaded again after each store."""
    total, n = rng.choice(("int32_t", "int64_t", "uint32_t")), rng.randrange(1000, 12000)
    step = rng.choice(("t->to[i] = (unsigned char)(t->from[i] + t->add);", "t->to[i] = (unsigned char)(t->from[i] ^ t->add);"))
    declarations = (f"struct totals {{\n    {total} sum;\n    size_t length;\n    unsigned char *from, *to;\n    {total} add;\n}};\n"
                    f"static struct totals *all;\nstatic NOINLINE void {name}(struct totals *t)\n{{\n"
                    f"#if VARIANT == SLOW\n    for (size_t i = 0; i < t->length; i++) {{\n"
                    f"        t->sum += t->from[i];\n        {step}\n    }}\n#else\n"
                    f"    {total} sum = t->sum, add = t->add;\n    unsigned char *from = t->from, *RESTRICT to = t->to;\n"
                    f"    for (size_t i = 0, length = t->length; i < length; i++) {{\n        sum += from[i];\n"
                    f"        {step.replace('t->', '')}\n    }}\n    t->sum = sum;\n#endif\n}}\n")
    # What no compiler sees the origin of may lie anywhere.
    setup = "    all = (struct totals *)drawn_array(sizeof(struct totals), 0);\n" + "".join(
        f"    all->{array} = (unsigned char *)drawn_array({n}, 0);\n    memset(all->{array}, 3, {n});\n"
        for array in ("from", "to"))
    setup += f"    all->sum = 0, all->length = {n}, all->add = 3;\n"
    work = f"    for (int lap = 0; lap < 1000; lap++)\n        {name}(all);\n    drawn_sum[thread][0] = (double)all->sum;\n"
    return ("repeated-loads",), ("core-bound",), setup, work, declarations, 1, f"{total}, {n} bytes"


def uneven(rng, kind, name):
    share = rng.uniform(0.65, 0.92)
    steps = 4000000
    declarations = (f"static NOINLINE double {name}(uint64_t x, size_t steps)\n{{\n    double sum = 0;\n"
                    f"    for (size_t i = 0; i < steps; i++)\n        sum += (double)(DRAWN_NEXT(x) >> 40) * 1e-7;\n    return sum;\n}}\n")
    first = {"SLOW": share, "REPAIRED": 0.5, "NEAR": 0.51}
    shares = " : ".join(f"VARIANT == {variant} ? {int(steps * part)}" for variant, part in first.items())
    work = (f"    const size_t first = {shares} : 0;\n"
            f"    drawn_sum[thread][0] += {name}((uint64_t)thread, thread == 0 ? first : {steps} - first);\n")
    return ("load-imbalance",), ("barrier-waits",), "", work, declarations, 2, f"{100 * share:.0f} % on one thread"


def passes(rng, kind, name):
    kind = rng.choice(("float", "double"))
    size = 4 if kind == "float" else 8
    n, count, tile = rng.randrange(60, 150) * (1 << 20) // size, rng.choice((4, 6, 8)), 16384 // size
    declarations = (f"static {kind} *data;\nstatic NOINLINE void {name}(size_t from, size_t to, {kind} factor)\n{{\n"
                    f"    for (size_t i = from; i < to; i++)\n        data[i] = data[i] * factor + ({kind})1;\n}}\n")
    setup = f"    data = ({kind} *)drawn_array({n} * sizeof({kind}), 1);\n    drawn_fill_{kind}(data, {n});\n"
    n = n // 2 // tile * tile * 2
    work = (f"    const size_t from = (size_t){n // 2} * thread, to = from + {n // 2};\n#if VARIANT == SLOW\n"
            f"    for (int pass = 0; pass < {count}; pass++)\n        {name}(from, to, ({kind})0.5);\n#elif VARIANT == REPAIRED\n"
            f"    for (size_t at = from; at < to; at += {tile})\n        for (int pass = 0; pass < {count}; pass++)\n"
            f"            {name}(at, at + {tile}, ({kind})0.5);\n#else\n    (void)to;\n"
            f"    for (size_t at = 0; at < {n // 2}; at += {tile})\n        for (int pass = 0; pass < {count}; pass++)\n"
            f"            {name}(from, from + {tile}, ({kind})0.5);\n#endif\n    drawn_sum[thread][0] += (double)data[from];\n")
    return ("bandwidth-saturated",), ("non-temporal-stores",), setup, work, declarations, 2, f"{count} passes over {kind}"


CAUSES = {"strided-walk": strided, "low-line-use": unused_fields, "pointer-chase": chase, "tlb-bound": scattered_pages,
          "false-sharing": shared_line, "fault-churn": fresh_buffers, "fault-startup": first_touch, "allocator-churn": small_blocks,
          "repeated-loads": loads_again, "load-imbalance": uneven, "bandwidth-saturated": passes}


def cause(seed, index, only=None):
    """The cause `index` of a seed: all kinds in turn, in an order of the seed's."""
    order = sorted(CAUSES)
    random.Random(f"order/{seed}").shuffle(order)
    name = only or order[index % len(order)]
    rng = random.Random(f"cause/{seed}/{index}/{name}")
    kind, function = rng.choice(("float", "double", "int32_t", "int64_t")), rng.choice(NAMES)
    wanted, allowed, setup, work, declarations, threads, detail = CAUSES[name](rng, kind, function)
    # Where the compiler makes no vectors, arithmetic takes longer than what these two could save.
    level = "-O3" if name in ("repeated-loads", "bandwidth-saturated") else rng.choice(("-O1", "-O2", "-O2", "-O3"))
    flags = (rng.choice(("gcc", "clang")), level, rng.choice(("-march=x86-64-v2", "-march=x86-64-v3")))
    source = f"/* Drawn by bench/drawn/causes.py, seed {seed}, index {index}: {name}, {detail} */\n"
    return Cause(name, source + text(setup, work, declarations, threads), wanted, allowed, flags, threads, detail)
