"""Phases of drawn programs whose loops are Fortran: streams, stencils, products and gathers, called from C.

What for: another front end, arrays with bounds, columns first, array expressions. What not: patterns that Fortran would not
have otherwise; families.py and irregular.py say how a phase is made. Arrays, repeats and threads are those of the C runtime.
"""
from families import ACCESSES, BANDWIDTH, CORE, LATENCY, TLB, array, by_level, part, phase, side_of
from irregular import random_classes

KINDS = {"float": "real(c_float)", "double": "real(c_double)", "int32_t": "integer(c_int32_t)", "int64_t": "integer(c_int64_t)"}


def with_kernel(draw, arrays, names, n, body, laps, classes, detail, bounds):
    """A phase whose lap calls a kernel over elements or columns. `names`: of its arrays; `n`: their bounds."""
    k, kind = draw.k, draw.type
    kinds = {"index": "uint32_t"}
    pointers = ", ".join(f"{kinds.get(name, kind)} *{name}" for name in names)
    before = f"double p{k}_kernel({pointers}, int64_t first, int64_t last);\n"
    handed = ", ".join(f"p{k}_{name}" for name in names)
    work = part(bounds) + (f"    for (int lap = 0; lap < {laps}; lap++) {{\n"
                           f"        drawn_sum[thread][0] += p{k}_kernel({handed}, (int64_t)from + 1, (int64_t)to);\n"
                           f"        DRAWN_LAP;\n    }}\n")
    shape = {"index": f"integer(c_int32_t), intent(in) :: index({bounds})"}
    declared = "\n".join("  " + shape.get(name, f"{KINDS[kind]}, intent(inout) :: {name}({n})") for name in names)
    at = "first" if "," not in n else "1, first"
    text = (f"function p{k}_kernel({', '.join(names)}, first, last) bind(C) result(answer)\n  use iso_c_binding\n  implicit none\n"
            f"{declared}\n  integer(c_int64_t), value :: first, last\n  real(c_double) :: answer\n"
            f"  integer(c_int64_t) :: i, j, l\n  {KINDS[kind]} :: total\n  total = 0\n{body}  answer = total\n"
            f"end function\n")
    kept = "a(1)" if "index" in names else f"{names[-1]}({at})"  # what was written must be computed
    text = text.replace("  answer = total\n", f"  answer = total + {kept}\n")
    return phase(draw, arrays, work, classes, f"Fortran, {detail}", before)._replace(fortran=text)


def stream(draw):
    kernel = draw.choose("sum", "copy", "triad", "expression")
    count = {"sum": 1, "copy": 2}.get(kernel, 3)
    n = draw.elements(count)
    body = {"sum": "  total = sum(a(first:last))\n",
            "copy": "  do i = first, last\n    b(i) = a(i)\n  end do\n",
            "triad": "  do i = first, last\n    c(i) = a(i) + 3 * b(i)\n  end do\n",
            "expression": "  c(first:last) = a(first:last) * 2 + b(first:last)\n"}[kernel]
    names = "abc"[:count]
    serial = draw.plain or kernel == "sum" and not draw.fast
    return with_kernel(draw, [array(draw, name, n) for name in names], names, str(n), body, draw.laps(n * count),
                       by_level(draw, (BANDWIDTH, CORE) if serial else (BANDWIDTH,)), kernel, n)


def stencil(draw):
    n = max(12, side_of(draw.elements(2), 2))
    body = (f"  do j = max(first, 2_c_int64_t), min(last, {n - 1}_c_int64_t)\n    do i = 2, {n - 1}\n"
            f"      b(i, j) = (a(i, j) + a(i - 1, j) + a(i + 1, j) + a(i, j - 1) + a(i, j + 1)) / 5\n    end do\n  end do\n")
    return with_kernel(draw, [array(draw, name, n * n) for name in "ab"], "ab", f"{n}, {n}", body, draw.laps(2 * n * n),
                       by_level(draw, (BANDWIDTH, CORE)), f"2D, side {n}", n)


def product(draw):
    """Some columns of a product; the order of the loops decides whether rows or columns are walked."""
    n = side_of(draw.elements(3), 2, 16)
    order = draw.choose("jli", "jil")
    columns = max(1, min(n, ACCESSES // (n * n)))
    outer, inner = (("l", "i"), ("i", "l"))[order == "jil"]
    body = (f"  do j = first, last\n    do {outer} = 1, {n}\n      do {inner} = 1, {n}\n"
            f"        c(i, j) = c(i, j) + a(i, l) * b(l, j)\n      end do\n    end do\n  end do\n")
    far = (BANDWIDTH, CORE) if order == "jli" else (LATENCY, TLB, BANDWIDTH, CORE)
    near = (CORE, LATENCY) if draw.level == "l2" else by_level(draw, far, (CORE, LATENCY, TLB, BANDWIDTH))
    return with_kernel(draw, [array(draw, name, n * n) for name in "abc"], "abc", f"{n}, {n}", body,
                       max(1, ACCESSES // (columns * n * n)), near, f"{order}, side {n}", columns)


def gather(draw):
    k, n = draw.k, draw.elements()
    count = min(ACCESSES // 2, max(1 << 12, n // 4))
    index = (f"static ARRAY(uint32_t) p{k}_index;\n",
             f"    p{k}_index = (uint32_t *)drawn_array({count} * sizeof(uint32_t), {draw.huge});\n"
             f"    drawn_indices(p{k}_index, {count}, {n - 1}, {draw.random.randrange(1 << 32)});\n")
    body = "  do i = first, last\n    total = total + a(index(i) + 1)\n  end do\n"
    return with_kernel(draw, [array(draw, "a", n), index], ("a", "index"), str(n), body, max(1, ACCESSES // 2 // count),
                       random_classes(draw, False), "gather", count)


FAMILIES = {"stream": stream, "stencil": stencil, "product": product, "gather": gather}
