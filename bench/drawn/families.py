"""Access patterns of drawn programs whose addresses follow a rule: streams, strides, stencils, matrices, fields, sums.

What for: each family is a function from a Draw to the C text of one phase. What not: patterns that follow data
(irregular.py), and how phases become a program (generate.py).

A phase defines `pK_setup(void)`, which allocates and writes its arrays, and `pK_work(thread, threads)`, one repeat: some
million accesses, so that two repeats can be counted and a second holds dozens. Names carry the phase's number.
"""
from typing import NamedTuple

BANDWIDTH, LATENCY, CORE, TLB = "bandwidth-bound", "latency-bound", "core-bound", "tlb-bound"
TYPES = {"float": 4, "double": 8, "int32_t": 4, "int64_t": 8}
# Accesses of one repeat, about: 20 to 200 ms alone, and seconds when counted.
ACCESSES = 1 << 20


class Draw(NamedTuple):
    """What is drawn for a phase before its family: its number, a source of chance, and its size."""
    k: int
    random: object
    bytes: int
    level: str  # l1, l2, l3, dram or border
    huge: int
    threads: int
    type: str
    fast: bool  # -Ofast: sums in any order
    plain: bool  # -O0

    def elements(self, arrays=1, multiple=64):
        return max(multiple, self.bytes // TYPES[self.type] // arrays // multiple * multiple)

    def laps(self, elements):
        return max(1, ACCESSES // elements)

    def choose(self, *options):
        return self.random.choice(options)


class Phase(NamedTuple):
    source: str
    classes: tuple
    detail: str


def array(draw, name, elements, kind=None, fill=True):
    """(declaration, setup) of one array of the phase."""
    kind = kind or draw.type
    variable = f"p{draw.k}_{name}"
    setup = f"    {variable} = ({kind} *)drawn_array({elements} * sizeof({kind}), {draw.huge});\n"
    if fill:
        setup += f"    drawn_fill_{kind}({variable}, {elements});\n"
    return f"static ARRAY({kind}) {variable};\n", setup


def phase(draw, arrays, work, classes, detail, before=""):
    """Puts a phase together. `work`: text of the body, with `from` and `to` declared by the family itself."""
    k = draw.k
    source = "".join(declaration for declaration, _ in arrays) + before
    source += f"\nstatic void p{k}_setup(void)\n{{\n" + "".join(setup for _, setup in arrays) + "}\n"
    source += f"\nstatic P{k}_INLINE void p{k}_work(int thread, int threads)\n{{\n{work}}}\n"
    return Phase(source, tuple(classes), detail)


def part(elements, multiple=1):
    """Declares the thread's share of `elements`."""
    units = elements // multiple
    scaled = f" * {multiple}" if multiple > 1 else ""
    return (f"    const size_t from = (size_t){units} * thread / threads{scaled}, "
            f"to = (size_t){units} * (thread + 1) / threads{scaled};\n")


def by_level(draw, dram, l3=(BANDWIDTH, CORE)):
    """Classes of a pattern that prefetchers follow."""
    return {"l1": (CORE,), "l2": (CORE,), "l3": l3, "dram": dram}.get(draw.level, tuple({*dram, *l3, CORE}))


def stream(draw):
    k, kind = draw.k, draw.type
    kernel = draw.choose("sum", "copy", "scale", "add", "triad", "update")
    count = {"sum": 1, "update": 1, "copy": 2, "scale": 2}.get(kernel, 3)
    n = draw.elements(count)
    arrays = [array(draw, name, n) for name in "abc"[:count]]
    a, b, c = (f"p{k}_{name}" for name in "abc")
    body = {"sum": f"sum += {a}[i];", "copy": f"{b}[i] = {a}[i];", "scale": f"{b}[i] = ({kind})(3 * {a}[i]);",
            "add": f"{c}[i] = {a}[i] + {b}[i];", "triad": f"{c}[i] = {a}[i] + ({kind})3 * {b}[i];",
            "update": f"{a}[i] = ({kind})({a}[i] + 1);"}[kernel]
    inner = f"        for (size_t i = from; i < to; i++)\n            {body}\n"
    before = ""
    if draw.choose(True, False):  # a callee for each block
        block = draw.choose(256, 1024, 4096)
        before = (f"\nstatic NOINLINE {kind} p{k}_block(size_t from, size_t to)\n{{\n    {kind} sum = 0;\n"
                  f"    for (size_t i = from; i < to; i++)\n        {body}\n    return sum;\n}}\n")
        inner = (f"        for (size_t at = from; at < to; at += {block})\n"
                 f"            sum += p{k}_block(at, at + {block} < to ? at + {block} : to);\n")
    work = part(n) + (f"    {kind} sum = 0;\n    for (int lap = 0; lap < {draw.laps(n * count)}; lap++) {{\n{inner}"
                      f"        DRAWN_LAP;\n    }}\n    drawn_sum[thread][0] += (double)(sum + {a}[from]);\n")
    serial = draw.plain or kernel == "sum" and not draw.fast
    classes = by_level(draw, (BANDWIDTH, CORE) if serial else (BANDWIDTH,))
    return phase(draw, arrays, work, classes, kernel, before)


def stride(draw):
    k, kind = draw.k, draw.type
    step = draw.choose(64, 128, 256, 1024, 4096, 16384) // TYPES[kind] + draw.choose(0, 0, 1)
    n = draw.elements(1, step)
    writes = draw.choose(True, False)
    a = f"p{k}_a"
    body = f"{a}[i] = ({kind})({a}[i] + 1);" if writes else f"sum += {a}[i];"
    starts = max(1, min(step, ACCESSES // (n // step)))
    # Starts lie a line apart, so that a lap asks for other lines than the one before.
    work = (f"    {kind} sum = 0;\n    static size_t first[2];\n    for (int start = 0; start < {starts}; start++) {{\n"
            f"        first[thread] = (first[thread] + {64 // TYPES[kind]}) % {step};\n"
            f"        for (size_t i = first[thread] + (size_t){n // step} * thread / threads * {step};\n"
            f"             i < (size_t){n // step} * (thread + 1) / threads * {step}; i += {step})\n"
            f"            {body}\n        DRAWN_LAP;\n    }}\n    drawn_sum[thread][0] += (double)(sum + {a}[0]);\n")
    classes = by_level(draw, (BANDWIDTH, LATENCY, TLB, *((CORE,) if draw.plain else ())), (CORE, LATENCY, TLB, BANDWIDTH))
    return phase(draw, [array(draw, "a", n)], work, classes, f"{step * TYPES[kind]} bytes, {'update' if writes else 'sum'}")


FAMILIES = {"stream": stream, "stride": stride}
