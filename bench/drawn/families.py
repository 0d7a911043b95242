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
    level: str = ""  # where it is another one than the drawn one
    bytes: int = 0
    fortran: str = ""  # its kernel, where that is Fortran


def array(draw, name, elements, kind=None, fill=True):
    """(declaration, setup) of one array of the phase."""
    kind = kind or draw.type
    variable = f"p{draw.k}_{name}"
    setup = f"    {variable} = ({kind} *)drawn_array({elements} * sizeof({kind}), {draw.huge});\n"
    if fill:
        setup += f"    drawn_fill_{kind}({variable}, {elements});\n"
    return f"static ARRAY({kind}) {variable};\n", setup


def phase(draw, arrays, work, classes, detail, before="", level="", size=0):
    """Puts a phase together. `work`: text of the body, with `from` and `to` declared by the family itself."""
    k = draw.k
    source = "".join(declaration for declaration, _ in arrays) + before
    source += f"\nstatic void p{k}_setup(void)\n{{\n" + "".join(setup for _, setup in arrays) + "}\n"
    source += f"\nstatic P{k}_INLINE void p{k}_work(int thread, int threads)\n{{\n{work}}}\n"
    return Phase(source, tuple(sorted(set(classes))), detail, level or draw.level, size or draw.bytes)


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
    if step * TYPES[kind] >= 1024:  # few sets of the first level, and no prefetch across pages
        classes = tuple({*classes, LATENCY})
    return phase(draw, [array(draw, "a", n)], work, classes, f"{step * TYPES[kind]} bytes, {'update' if writes else 'sum'}")


def side_of(elements, power, multiple=8):
    """The side of a square or a cube of about so many elements."""
    return max(multiple, int(elements ** (1 / power)) // multiple * multiple)


def stencil(draw):
    k, kind = draw.k, draw.type
    power = draw.choose(2, 3)
    n = max(12, side_of(draw.elements(2), power))
    size = n ** power
    a, b = f"p{k}_a", f"p{k}_b"
    if power == 2:
        loops, at = "        for (size_t j = 1; j < {n} - 1; j++) {{\n            const size_t at = i * {n} + j;\n", (1, n)
    else:
        loops = ("        for (size_t j = 1; j < {n} - 1; j++)\n        for (size_t l = 1; l < {n} - 1; l++) {{\n"
                 "            const size_t at = (i * {n} + j) * {n} + l;\n")
        at = (1, n, n * n)
    terms = " + ".join(f"{a}[at - {d}] + {a}[at + {d}]" for d in at)
    body = f"            {b}[at] = ({kind})(({a}[at] + {terms}) / ({kind}){2 * power + 1});\n        }}\n"
    laps = draw.laps(size * 2)
    work = part(n - 2) + (f"    for (int lap = 0; lap < {laps}; lap++) {{\n    for (size_t i = from + 1; i < to + 1; i++)\n"
                          + loops.format(n=n) + body + "    DRAWN_LAP;\n    }\n"
                          f"    drawn_sum[thread][0] += (double){b}[{size // 2}];\n")
    # Integer division, and scalar code, take longer than the memory.
    classes = by_level(draw, (BANDWIDTH, CORE))
    return phase(draw, [array(draw, "a", size), array(draw, "b", size)], work, classes, f"{power}D, side {n}")


def transpose(draw):
    k, kind = draw.k, draw.type
    n = side_of(draw.elements(2), 2, 16) + draw.choose(0, 0, 1) * 16
    block = draw.choose(0, 8, 16)
    a, b = f"p{k}_a", f"p{k}_b"
    if draw.choose(True, False):
        move = f"{b}[j * {n} + i] = {a}[i * {n} + j];"
    else:
        move = f"{b}[i * {n} + j] = {a}[j * {n} + i];"
    if block:
        loops = (f"        for (size_t jj = 0; jj < {n}; jj += {block})\n        for (size_t i = ii; i < ii + {block}; i++)\n"
                 f"        for (size_t j = jj; j < jj + {block}; j++)\n            {move}\n")
        outer = f"        for (size_t ii = from; ii < to; ii += {block})\n"
    else:
        outer, loops = "        for (size_t i = from; i < to; i++)\n", f"        for (size_t j = 0; j < {n}; j++)\n            {move}\n"
    # Large ones a part per repeat: bands of rows in turn.
    bands = max(1, min(n // 16, n * n // (ACCESSES // 2)))
    work = (f"    static size_t turn[2];\n    const size_t first = turn[thread]++ % {bands} * {n // 16} / {bands};\n"
            f"    const size_t end = ((turn[thread] - 1) % {bands} + 1) * {n // 16} / {bands};\n"
            f"    const size_t from = 16 * (first + (end - first) * thread / threads);\n"
            f"    const size_t to = 16 * (first + (end - first) * (thread + 1) / threads);\n"
            f"    for (int lap = 0; lap < {draw.laps(2 * n * n)}; lap++) {{\n{outer}{loops}        DRAWN_LAP;\n    }}\n"
            f"    drawn_sum[thread][0] += (double){b}[{n * n // 2}];\n")
    far = (BANDWIDTH, CORE) if block else (LATENCY, TLB, BANDWIDTH, *((CORE,) if draw.plain else ()))
    classes = by_level(draw, (*far, LATENCY, TLB), (CORE, LATENCY, TLB, BANDWIDTH))
    if draw.level == "l2":
        classes = (CORE, LATENCY)
    return phase(draw, [array(draw, "a", n * n), array(draw, "b", n * n)], work, classes,
                 f"side {n}, {f'blocks of {block}' if block else 'plain'}")


def fields(draw):
    """Some fields of many records: an array of structures, or a structure of arrays."""
    k, kind = draw.k, draw.type
    apart = draw.choose(True, False)
    count = draw.choose(2, 3, 4) if apart else draw.choose(2, 4, 8, 16)
    used = draw.random.sample(range(count), draw.choose(1, 1, 2))
    # The size is that of what is walked over: of whole records, or of the arrays in use.
    n = draw.elements(len(used) if apart else count)
    writes = draw.choose(True, False)
    if apart:
        arrays = [array(draw, f"f{f}", n) for f in range(count)]
        at, before = [f"p{k}_f{f}[i]" for f in used], ""
    else:
        declaration = (f"struct p{k}_record {{\n    {kind} f[{count}];\n}};\nstatic ARRAY(struct p{k}_record) p{k}_r;\n")
        setup = (f"    p{k}_r = (struct p{k}_record *)drawn_array({n} * sizeof(struct p{k}_record), {draw.huge});\n"
                 f"    drawn_fill_{kind}(p{k}_r[0].f, {n * count});\n")
        arrays, at = [(declaration, setup)], [f"p{k}_r[i].f[{f}]" for f in used]
    body = f"sum += {' * '.join(at)};" if not writes else f"{at[0]} = ({kind})({at[-1]} + 1);"
    work = part(n) + (f"    {kind} sum = 0;\n    for (int lap = 0; lap < {draw.laps(n)}; lap++) {{\n"
                      f"        for (size_t i = from; i < to; i++)\n            {body}\n        DRAWN_LAP;\n    }}\n"
                      f"    drawn_sum[thread][0] += (double)(sum + {at[0].replace('[i]', '[from]')});\n")
    classes = by_level(draw, (BANDWIDTH, *((CORE,) if draw.plain or not writes else ())))
    if draw.level == "dram" and not apart and count * TYPES[kind] >= 64:
        classes = tuple({*classes, LATENCY})
    form = "structure of arrays" if apart else "array of structures"
    return phase(draw, arrays, work, classes, f"{form}, {len(used)} of {count} fields, {'update' if writes else 'sum'}")


def product(draw):
    """A matrix product; of large matrices some rows per repeat."""
    k, kind = draw.k, draw.type
    n = side_of(draw.elements(3), 2, 16)
    order = draw.choose("ijk", "ikj", "blocked")
    a, b, c = (f"p{k}_{name}" for name in "abc")
    rows = max(1, min(n, ACCESSES // (n * n)))
    step = f"{c}[i * {n} + j] += {a}[i * {n} + l] * {b}[l * {n} + j];"
    if order == "ijk":
        loops = (f"        for (size_t j = 0; j < {n}; j++) {{\n            {kind} dot = 0;\n"
                 f"            for (size_t l = 0; l < {n}; l++)\n                dot += {a}[i * {n} + l] * {b}[l * {n} + j];\n"
                 f"            {c}[i * {n} + j] = dot;\n        }}\n")
    elif order == "ikj":
        loops = (f"        for (size_t l = 0; l < {n}; l++)\n        for (size_t j = 0; j < {n}; j++)\n            {step}\n")
    else:
        loops = (f"        for (size_t ll = 0; ll < {n}; ll += 16)\n        for (size_t jj = 0; jj < {n}; jj += 16)\n"
                 f"        for (size_t l = ll; l < ll + 16; l++)\n        for (size_t j = jj; j < jj + 16; j++)\n"
                 f"            {step}\n")
    work = (f"    static size_t turn[2];\n    const size_t first = turn[thread]++ % {max(1, n // rows)} * {rows};\n"
            f"    const size_t from = first + (size_t){rows} * thread / threads;\n"
            f"    const size_t to = first + (size_t){rows} * (thread + 1) / threads;\n"
            f"    for (int lap = 0; lap < {max(1, ACCESSES // (rows * n * n))}; lap++) {{\n"
            f"    for (size_t i = from; i < to; i++) {{\n{loops}    }}\n    DRAWN_LAP;\n    }}\n"
            f"    drawn_sum[thread][0] += (double){c}[0] * 1e-30;\n")
    far = {"ijk": (LATENCY, TLB, BANDWIDTH), "ikj": (BANDWIDTH, CORE), "blocked": (BANDWIDTH, CORE, LATENCY)}[order]
    classes = by_level(draw, tuple({*far, *((CORE,) if draw.plain else ())}), (CORE, LATENCY, TLB, BANDWIDTH))
    if draw.level == "l2":
        classes = (CORE, LATENCY)
    return phase(draw, [array(draw, name, n * n) for name in "abc"], work, classes, f"{order}, side {n}")


def compute(draw):
    """Arithmetic that depends on itself, on few data."""
    k = draw.k
    kind = draw.choose("float", "double", "double", "int64_t")
    size = 2048 + draw.bytes % 14336
    n = size // TYPES[kind]
    chains = draw.choose(1, 2, 4)
    chosen = draw.choose("multiply", "divide", "root" if kind != "int64_t" else "divide")
    step = {"multiply": "x{c} = x{c} * (T)3 + {a};", "divide": "x{c} = (T)1000003 / (x{c} % 1000 + 1 + {a});",
            "root": "x{c} = SQRT(x{c} + {a});"}[chosen]
    if chosen == "divide" and kind != "int64_t":
        step = "x{c} = (T)1000003 / (x{c} + {a});"
    if chosen == "multiply" and kind != "int64_t":
        step = "x{c} = x{c} * (T)0.75 + {a};"
    if chosen == "multiply" and kind == "int64_t":
        step = "x{c} = (x{c} * (T)3 + {a}) & 0xffffff;"
    step = step.replace("(T)", f"({kind})").replace("SQRT", "sqrtf" if kind == "float" else "sqrt")
    body = "".join(f"            {step.format(c=c, a=f'p{k}_a[i]')}\n" for c in range(chains))
    names = ", ".join(f"x{c} = {c + 1}" for c in range(chains))
    work = (f"    {kind} {names};\n    for (int lap = 0; lap < {max(1, ACCESSES // 2 // n)} / threads; lap++) {{\n"
            f"        for (size_t i = 0; i < {n}; i++) {{\n{body}        }}\n        DRAWN_LAP;\n    }}\n"
            f"    drawn_sum[thread][0] += (double)({' + '.join(f'x{c}' for c in range(chains))});\n")
    arrays = [array(draw, "a", n, kind)]
    return phase(draw, arrays, work, (CORE,), f"{chosen} {kind}, {chains} chains", level="l1", size=size)


FAMILIES = {"stream": stream, "stride": stride, "stencil": stencil, "transpose": transpose, "fields": fields,
            "product": product, "compute": compute}
