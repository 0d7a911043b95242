"""Access patterns of drawn programs whose addresses follow from data: gathers, chases, tables, trees, graphs.

What for and how: as families.py, which has the patterns that follow a rule.
"""
from families import ACCESSES, BANDWIDTH, CORE, LATENCY, TLB, array, phase


def random_classes(draw, dependent):
    """Classes of accesses that no prefetcher guesses. Independent ones overlap: a core waits less for them."""
    if draw.level == "l1":
        return (CORE, LATENCY) if dependent else (CORE,)
    if draw.level == "l2":
        return CORE, LATENCY
    if draw.level == "l3":
        return (LATENCY, TLB) if dependent else (CORE, LATENCY, TLB)
    far = (LATENCY,) if draw.huge else (LATENCY, TLB)
    if not dependent:
        far = (*far, BANDWIDTH, *((CORE,) if draw.plain else ()))
    return far if draw.level == "dram" else tuple({*far, CORE})


def indexed(draw, name, write):
    """A gather or a scatter by an index array, of which each repeat walks a further part."""
    k, kind = draw.k, draw.type
    n = draw.elements()
    chunk = min(ACCESSES // 4, max(1 << 12, n // 8))  # of one thread
    turns = draw.threads * (4 if n > 1 << 20 else 1)
    own = n // draw.threads if write != "read" else n  # threads that write have a part each
    indices = (f"static ARRAY(uint32_t) p{k}_index;\n",
               f"    p{k}_index = (uint32_t *)drawn_array({chunk * turns} * sizeof(uint32_t), {draw.huge});\n"
               f"    drawn_indices(p{k}_index, {chunk * turns}, {own}, {draw.random.randrange(1 << 32)});\n")
    a = "a"
    body = {"read": f"sum += {a}[p{k}_index[i]];", "store": f"{a}[p{k}_index[i]] = ({kind})i;",
            "update": f"{a}[p{k}_index[i]] = ({kind})({a}[p{k}_index[i]] + 1);"}[write]
    work = (f"    {kind} sum = 0;\n    static size_t turn[2];\n    {kind} *a = &p{k}_a[(size_t){n - own} * thread];\n"
            f"    const size_t from = (turn[thread]++ * threads + thread) % {turns} * {chunk}, to = from + {chunk};\n"
            f"    for (int lap = 0; lap < {max(1, ACCESSES // 2 // chunk) if n <= 1 << 20 else 1}; lap++) {{\n"
            f"        for (size_t i = from; i < to; i++)\n            {body}\n        DRAWN_LAP;\n    }}\n"
            f"    drawn_sum[thread][0] += (double)(sum + {a}[0]);\n")
    return phase(draw, [array(draw, "a", n), indices], work, random_classes(draw, False), name)


def gather(draw):
    return indexed(draw, "gather", "read")


def scatter(draw):
    write = draw.choose("store", "update")
    return indexed(draw, f"scatter, {write}", write)


def chase(draw):
    k = draw.k
    node = draw.choose(16, 32, 64, 128)
    n = max(64, draw.bytes // node)
    chains = draw.choose(1, 1, 2, 4)
    before = (f"struct p{k}_node {{\n    struct p{k}_node *next;\n    int64_t value[{node // 8 - 1}];\n}};\n"
              f"static ARRAY(struct p{k}_node) p{k}_nodes;\nstatic struct p{k}_node *p{k}_at[2][{chains}];\n")
    setup = (f"    uint32_t *order = (uint32_t *)drawn_array({n} * sizeof(uint32_t), 0);\n"
             f"    drawn_cycle(order, {n}, {draw.random.randrange(1 << 32)});\n"
             f"    p{k}_nodes = (struct p{k}_node *)drawn_array({n} * sizeof(struct p{k}_node), {draw.huge});\n"
             f"    for (size_t i = 0; i < {n}; i++) {{\n        p{k}_nodes[i].next = &p{k}_nodes[order[i]];\n"
             f"        for (int j = 0; j < {node // 8 - 1}; j++)\n            p{k}_nodes[i].value[j] = (int64_t)i;\n    }}\n"
             f"    for (int i = 0; i < {2 * chains}; i++)\n"
             f"        p{k}_at[i / {chains}][i % {chains}] = &p{k}_nodes[(size_t)i * {n} / {2 * chains}];\n")
    steps = ACCESSES // 2 // chains
    adds = draw.choose(True, False)
    work = f"    int64_t sum = 0;\n    struct p{k}_node *at[{chains}];\n"
    work += f"    for (int c = 0; c < {chains}; c++)\n        at[c] = p{k}_at[thread][c];\n"
    work += f"    for (size_t step = 0; step < {steps} / (size_t)threads; step++)\n        for (int c = 0; c < {chains}; c++) {{\n"
    work += "            sum += at[c]->value[0];\n" if adds else ""
    work += f"            at[c] = at[c]->next;\n        }}\n    for (int c = 0; c < {chains}; c++)\n"
    work += f"        p{k}_at[thread][c] = at[c];\n    drawn_sum[thread][0] += (double)(sum + at[0]->value[0]);\n"
    return phase(draw, [(before, setup)], work, random_classes(draw, True), f"{chains} chains, nodes of {node} bytes")


def hash_probe(draw):
    """Open addressing with linear probing; keys are drawn, some are not there."""
    k, kind = draw.k, draw.choose("int32_t", "int64_t")
    entry = 8 if kind == "int32_t" else 16
    bits = max(6, (draw.bytes // entry).bit_length() - 1)
    n = 1 << bits
    load = draw.choose(0.25, 0.5, 0.7)
    span = draw.choose(1, 2, 4)  # one key in `span` is there, about
    before = f"struct p{k}_entry {{\n    {kind} key, value;\n}};\nstatic ARRAY(struct p{k}_entry) p{k}_table;\n"
    before += (f"static inline size_t p{k}_slot(uint64_t key)\n{{\n"
               f"    return (size_t)(key * 0x9E3779B97F4A7C15u >> {64 - bits});\n}}\n")
    inserted = int(n * load)
    setup = (f"    p{k}_table = (struct p{k}_entry *)drawn_array({n} * sizeof(struct p{k}_entry), {draw.huge});\n"
             f"    drawn_fill_{kind}(&p{k}_table[0].key, {2 * n});\n"
             f"    for (size_t i = 0; i < {n}; i++)\n        p{k}_table[i].key = -1;\n"
             f"    for (size_t i = 0; i < {inserted}; i++) {{\n        size_t at = p{k}_slot(i * {span});\n"
             f"        while (p{k}_table[at].key != -1)\n            at = (at + 1) & {n - 1};\n"
             f"        p{k}_table[at].key = ({kind})(i * {span});\n    }}\n")
    # Two threads that write to one small table would mostly wait for each other's lines: not this family's question.
    updates = draw.choose(True, False) and draw.threads == 1
    found = f"p{k}_table[at].value++;" if updates else f"sum += p{k}_table[at].value;"
    probes = ACCESSES // 4
    work = (f"    static uint64_t state[2] = {{1, 2}};\n    uint64_t x = state[thread], sum = 0;\n"
            f"    for (size_t probe = 0; probe < {probes} / (size_t)threads; probe++) {{\n"
            f"        const uint64_t key = (DRAWN_NEXT(x) >> 32) * {inserted * span} >> 32;\n        size_t at = p{k}_slot(key);\n"
            f"        while (p{k}_table[at].key != -1 && p{k}_table[at].key != ({kind})key)\n            at = (at + 1) & {n - 1};\n"
            f"        if (p{k}_table[at].key != -1)\n            {found}\n    }}\n"
            f"    state[thread] = x;\n    drawn_sum[thread][0] += (double)sum;\n")
    return phase(draw, [(before, setup)], work, random_classes(draw, False), f"load {load}, {'update' if updates else 'lookup'}",
                 size=n * entry)


def search(draw):
    """Binary search in a sorted array."""
    k, kind = draw.k, draw.choose("int32_t", "int64_t", "double")
    n = max(64, draw.bytes // (4 if kind == "int32_t" else 8))
    searches = max(1024, ACCESSES // 2 // n.bit_length())
    branchless = draw.choose(True, False)
    a = f"p{k}_a"
    setup = f"    for (size_t i = 0; i < {n}; i++)\n        {a}[i] = ({kind})(2 * i);\n"
    declaration, allocate = array(draw, "a", n, kind, fill=False)
    if branchless:
        step = (f"        for (size_t size = {n}; size > 1; size -= size / 2)\n"
                f"            low += {a}[low + size / 2 - 1] < key ? size / 2 : 0;\n")
    else:
        step = (f"        size_t high = {n};\n        while (low < high) {{\n            const size_t middle = (low + high) / 2;\n"
                f"            if ({a}[middle] < key)\n                low = middle + 1;\n            else\n"
                f"                high = middle;\n        }}\n")
    work = (f"    static uint64_t state[2] = {{1, 2}};\n    uint64_t x = state[thread], sum = 0;\n"
            f"    for (size_t s = 0; s < {searches} / (size_t)threads; s++) {{\n"
            f"        const {kind} key = ({kind})((DRAWN_NEXT(x) >> 32) * {2 * n} >> 32);\n        size_t low = 0;\n{step}"
            f"        sum += low;\n    }}\n    state[thread] = x;\n    drawn_sum[thread][0] += (double)sum;\n")
    # The upper part of the tree is always near; branches guessed wrong cost as much as the lines.
    classes = (*random_classes(draw, True), *((CORE,) if draw.level != "dram" else (CORE, LATENCY)))
    return phase(draw, [(declaration, allocate + setup)], work, classes, "branchless" if branchless else "branching")


def histogram(draw):
    """Counts of a stream of small numbers, or of numbers computed from a position."""
    k, kind = draw.k, draw.choose("int32_t", "int64_t", "float", "double")
    n = max(64, draw.bytes // (4 if kind in ("int32_t", "float") else 8))
    of_data = draw.choose(True, False)
    count = ACCESSES // 2
    key = f"p{k}_data[i]" if of_data else f"(size_t)((DRAWN_NEXT(x) >> 32) * {n} >> 32)"
    arrays = [array(draw, "bins", n * draw.threads, kind)]
    if of_data:
        arrays.append((f"static ARRAY(uint32_t) p{k}_data;\n",
                       f"    p{k}_data = (uint32_t *)drawn_array({count} * sizeof(uint32_t), {draw.huge});\n"
                       f"    drawn_indices(p{k}_data, {count}, {n}, {draw.random.randrange(1 << 32)});\n"))
    work = (f"    static uint64_t state[2] = {{1, 2}};\n    uint64_t x = state[thread];\n"
            f"    {kind} *bins = &p{k}_bins[(size_t){n} * thread];\n"
            f"    for (size_t i = (size_t){count} * thread / threads; i < (size_t){count} * (thread + 1) / threads; i++)\n"
            f"        bins[{key}] += 1;\n    state[thread] = x;\n    drawn_sum[thread][0] += (double)bins[0];\n")
    classes = (*random_classes(draw, False), CORE)
    return phase(draw, arrays, work, classes, "of data" if of_data else "of positions", size=draw.bytes * draw.threads)


def merge(draw):
    """Two sorted runs into one; of large ones a part per repeat."""
    k, kind = draw.k, draw.type
    n = draw.elements(4)  # a and b of n each, c of 2 n
    a, b, c = (f"p{k}_{name}" for name in "abc")
    arrays = []
    for number, name in enumerate("ab"):
        declaration, allocate = array(draw, name, n, fill=False)
        allocate += (f"    {{\n        uint64_t x = {draw.random.randrange(1 << 32)};\n        {kind} last = 0;\n"
                     f"        for (size_t i = 0; i < {n}; i++) {{\n            p{k}_{name}[i] = last;\n"
                     f"            last += ({kind})(DRAWN_NEXT(x) >> 62);\n        }}\n    }}\n")
        arrays.append((declaration, allocate))
    arrays.append(array(draw, "c", 2 * n))
    chunk = min(n, ACCESSES // 8) // draw.threads
    turns = max(1, n // chunk // draw.threads)
    work = (f"    static size_t turn[2];\n"
            f"    const size_t from = (turn[thread]++ % {turns} * threads + thread) * {chunk}, to = from + {chunk};\n"
            f"    for (int lap = 0; lap < {max(1, ACCESSES // 8 // n)}; lap++) {{\n"
            f"        size_t i = from, j = from, at = 2 * from;\n        while (i < to && j < to)\n"
            f"            {c}[at++] = {a}[i] <= {b}[j] ? {a}[i++] : {b}[j++];\n"
            f"        while (i < to)\n            {c}[at++] = {a}[i++];\n        while (j < to)\n            {c}[at++] = {b}[j++];\n"
            f"        DRAWN_LAP;\n    }}\n    drawn_sum[thread][0] += (double){c}[from];\n")
    return phase(draw, arrays, work, (CORE, *((BANDWIDTH,) if draw.level in ("l3", "dram", "border") else ())), "two runs")


def radix(draw):
    """One pass of a radix sort: to the next place of the digit's bucket; of large arrays a part per repeat."""
    k, kind = draw.k, draw.choose("int32_t", "int64_t")
    n = draw.bytes // (8 if kind == "int32_t" else 16)
    bits = draw.choose(4, 6, 8, 11)
    n = max(1 << bits, n >> bits << bits)
    chunk = min(n, ACCESSES // 4)
    buckets, room = 1 << bits, n >> bits
    a, b = f"p{k}_a", f"p{k}_b"
    mix = f"(size_t)((uint64_t){a}[i] * 0x9E3779B97F4A7C15u >> {64 - bits})"
    declaration, allocate = array(draw, "a", n, kind, fill=False)
    allocate += f"    for (size_t i = 0; i < {n}; i++)\n        {a}[i] = ({kind})i;\n"
    for thread in range(1, draw.threads):  # its own places
        allocate += f"    for (size_t i = 0; i < {buckets}; i++)\n        p{k}_next[{thread}][i] = {room // 2};\n"
    places = f"static uint32_t p{k}_next[2][{buckets}];\n"
    work = (f"    static size_t turn[2];\n    uint32_t *next = p{k}_next[thread];\n"
            f"    const size_t first = turn[thread]++ % {max(1, n // chunk)} * {chunk};\n"
            f"    for (int lap = 0; lap < {max(1, ACCESSES // 4 // n)}; lap++) {{\n"
            f"        for (size_t i = first + (size_t){chunk} * thread / threads;\n"
            f"             i < first + (size_t){chunk} * (thread + 1) / threads; i++) {{\n"
            f"            const size_t bucket = {mix};\n"
            f"            const uint32_t at = next[bucket];\n            next[bucket] = at + 1 < {room} ? at + 1 : 0;\n"
            f"            {b}[bucket * {room} + at] = {a}[i];\n        }}\n        DRAWN_LAP;\n    }}\n"
            f"    drawn_sum[thread][0] += (double){b}[0];\n")
    far = {"dram": (BANDWIDTH, LATENCY, CORE, TLB), "border": (BANDWIDTH, LATENCY, CORE, TLB), "l3": (CORE, BANDWIDTH, LATENCY, TLB),
           "l2": (CORE, LATENCY)}.get(draw.level, (CORE,))
    return phase(draw, [(declaration, allocate), array(draw, "b", n, kind)], work, far, f"{buckets} buckets", before=places)


def sparse(draw):
    """A sparse matrix in rows (CSR) times a vector; columns near the diagonal or anywhere."""
    k, kind = draw.k, draw.choose("float", "double")
    per_row, local = draw.choose(4, 8, 16, 32), draw.choose(True, False)
    rows = max(64, draw.bytes // (per_row * (4 + (4 if kind == "float" else 8)) + 24))
    total = rows * per_row
    setup = (f"    p{k}_start = (uint32_t *)drawn_array({rows + 1} * sizeof(uint32_t), {draw.huge});\n"
             f"    p{k}_column = (uint32_t *)drawn_array({total} * sizeof(uint32_t), {draw.huge});\n"
             f"    drawn_indices(p{k}_column, {total}, {min(rows, 128) if local else rows}, {draw.random.randrange(1 << 32)});\n"
             f"    for (size_t i = 0; i <= {rows}; i++)\n        p{k}_start[i] = (uint32_t)i * {per_row};\n")
    if local:
        setup += (f"    for (size_t i = 0; i < {total}; i++)\n"
                  f"        p{k}_column[i] = (uint32_t)((p{k}_column[i] + i / {per_row}) % {rows});\n")
    arrays = [(f"static ARRAY(uint32_t) p{k}_start;\nstatic ARRAY(uint32_t) p{k}_column;\n", setup),
              array(draw, "value", total, kind), array(draw, "x", rows, kind), array(draw, "y", rows, kind)]
    chunk = max(1, min(rows, ACCESSES // per_row))
    work = (f"    static size_t turn[2];\n    const size_t first = turn[thread]++ % {max(1, rows // chunk)} * {chunk};\n"
            f"    for (int lap = 0; lap < {max(1, ACCESSES // 2 // total)}; lap++) {{\n"
            f"        for (size_t i = first + (size_t){chunk} * thread / threads;\n"
            f"             i < first + (size_t){chunk} * (thread + 1) / threads; i++) {{\n"
            f"            {kind} sum = 0;\n            for (uint32_t j = p{k}_start[i]; j < p{k}_start[i + 1]; j++)\n"
            f"                sum += p{k}_value[j] * p{k}_x[p{k}_column[j]];\n            p{k}_y[i] = sum;\n        }}\n"
            f"        DRAWN_LAP;\n    }}\n    drawn_sum[thread][0] += (double)p{k}_y[first];\n")
    if draw.level in ("l1", "l2"):
        classes = (CORE,)
    else:
        classes = (BANDWIDTH, CORE) if local else (BANDWIDTH, CORE, LATENCY, TLB)
    return phase(draw, arrays, work, classes, f"{per_row} per row, columns {'near' if local else 'anywhere'}")


def frontier(draw):
    """Breadth-first levels over a drawn graph: each vertex of a frontier marks its neighbours, which are the next."""
    k = draw.k
    degree = draw.choose(2, 4, 8)
    n = max(128, draw.bytes // (4 * degree + 12))
    size = max(64, min(n, ACCESSES // 4 // degree))
    setup = (f"    p{k}_edge = (uint32_t *)drawn_array({n * degree} * sizeof(uint32_t), {draw.huge});\n"
             f"    drawn_indices(p{k}_edge, {n * degree}, {n}, {draw.random.randrange(1 << 32)});\n"
             f"    p{k}_mark = (uint32_t *)drawn_array({n * draw.threads} * sizeof(uint32_t), {draw.huge});\n"
             f"    drawn_fill_int32_t((int32_t *)(uint32_t *)p{k}_mark, {n * draw.threads});\n"
             f"    p{k}_queue = (uint32_t *)drawn_array({2 * size * draw.threads} * sizeof(uint32_t), {draw.huge});\n"
             f"    drawn_fill_int32_t((int32_t *)(uint32_t *)p{k}_queue, {2 * size * draw.threads});\n"
             f"    for (int t = 0; t < {draw.threads}; t++)\n"
             f"        for (size_t i = 0; i < 64; i++)\n            p{k}_queue[{2 * size} * t + i] = (uint32_t)(i * {n // 64});\n")
    arrays = [("".join(f"static ARRAY(uint32_t) p{k}_{name};\n" for name in ("edge", "mark", "queue")), setup)]
    work = (f"    static uint32_t epoch[2] = {{100, 100}};\n    static size_t members[2] = {{64, 64}};\n"
            f"    uint32_t *mark = &p{k}_mark[(size_t){n} * thread], *queue = &p{k}_queue[(size_t){2 * size} * thread];\n"
            f"    size_t edges = 0, count = members[thread];\n    while (edges < {ACCESSES // 4} / (size_t)threads) {{\n"
            f"        uint32_t *next = queue + {size};\n        size_t found = 0;\n        const uint32_t now = ++epoch[thread];\n"
            f"        for (size_t i = 0; i < count; i++)\n            for (int e = 0; e < {degree}; e++) {{\n"
            f"                const uint32_t to = p{k}_edge[(size_t)queue[i] * {degree} + e];\n"
            f"                if (mark[to] != now && found < {size}) {{\n                    mark[to] = now;\n"
            f"                    next[found++] = to;\n                }}\n            }}\n"
            f"        edges += count * {degree};\n        for (size_t i = 0; i < found; i++)\n            queue[i] = next[i];\n"
            f"        count = found;\n    }}\n    members[thread] = count;\n    drawn_sum[thread][0] += (double)count;\n")
    return phase(draw, arrays, work, (*random_classes(draw, False), CORE), f"degree {degree}")


FAMILIES = {"gather": gather, "scatter": scatter, "chase": chase, "hash probe": hash_probe, "search": search,
            "histogram": histogram, "merge": merge, "radix": radix, "sparse": sparse, "frontier": frontier}
