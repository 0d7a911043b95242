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
    indices = (f"static ARRAY(uint32_t) p{k}_index;\n",
               f"    p{k}_index = (uint32_t *)drawn_array({chunk * turns} * sizeof(uint32_t), {draw.huge});\n"
               f"    drawn_indices(p{k}_index, {chunk * turns}, {n}, {draw.random.randrange(1 << 32)});\n")
    a = f"p{k}_a"
    body = {"read": f"sum += {a}[p{k}_index[i]];", "store": f"{a}[p{k}_index[i]] = ({kind})i;",
            "update": f"{a}[p{k}_index[i]] = ({kind})({a}[p{k}_index[i]] + 1);"}[write]
    work = (f"    {kind} sum = 0;\n    static size_t turn[2];\n"
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


FAMILIES = {"gather": gather, "scatter": scatter, "chase": chase}
