"""Scores of intervals against truth: coverage, width, bias, interval score, class; by quantity and by family.

What for: plain figures from rows of (truth range, estimate); the bench prints them. What not: running anything.

A truth is a range, as the two sizes of the last level give it; where it is wider than a quarter, the row is not scored. An
estimate within the range has no error, one outside is compared with the nearer end. Bytes and counts
are relative to the truth, shares are in points. A truth that is hardly there (SLACK) has no relative error: such rows
count for coverage only.
"""
import math
import statistics
from typing import NamedTuple, Optional

SHARES = ("l1 share", "l2 share", "l3 share", "dram share")
QUANTITIES = ("read", "write", "dram", "bandwidth", "loads", "stores", *SHARES)
# Starting a process costs this much beside; an interval may miss the truth by it.
# Of the loops that repeat phases: how often they went round.
PASSES = "passes of loops"
SLACK = {"read": 1e7, "write": 1e7, "dram": 1e7, "loads": 1e6, "stores": 1e6}
SHARE_SLACK = 0.2  # points
WIDEST_TRUTH, WIDEST_SHARE = 0.25, 5.0  # of the truth; points
ALPHA = 0.05


class Row(NamedTuple):
    """One quantity of one program."""
    program: str
    families: tuple
    circumstances: tuple  # length, number of phases, threads, ...: what may matter beside
    quantity: str
    truth: tuple  # low, high
    found: Optional[tuple]  # value, low, high
    slack: float

    @property
    def share(self):
        return self.quantity in SHARES

    @property
    def middle(self):
        return (self.truth[0] + self.truth[1]) / 2

    @property
    def scale(self):
        """What errors are divided by; 0: they are not."""
        if self.share:
            return 1.0
        return self.middle if self.middle > 10 * self.slack else 0.0

    @property
    def known(self):
        """Whether the truth is narrow enough to be one."""
        wide = self.truth[1] - self.truth[0]
        return wide <= (WIDEST_SHARE if self.share else max(self.slack, WIDEST_TRUTH * self.middle))

    @property
    def covered(self):
        _, low, high = self.found
        return low - self.slack <= self.truth[1] and self.truth[0] <= high + self.slack

    @property
    def error(self):
        value = self.found[0]
        return (value - min(max(value, self.truth[0]), self.truth[1])) / self.scale

    @property
    def half_width(self):
        return (self.found[2] - self.found[1]) / 2 / self.scale

    @property
    def interval_score(self):
        """Gneiting & Raftery (2007), JASA 102, eq. 43; the truth is the point of its range that is nearest."""
        _, low, high = self.found
        missed = max(0.0, low - self.truth[1]) + max(0.0, self.truth[0] - high)
        return (high - low + 2 / ALPHA * missed) / self.scale

    @property
    def wide(self):
        """Wider than a factor of two; a share: than 20 points."""
        _, low, high = self.found
        return high - low > 20 if self.share else high > 2 * max(low, 0)


def binomial_interval(hits, of):
    """95 % interval of a share (Wilson 1927), in percent."""
    if not of:
        return 0.0, 100.0
    z, share = 1.959964, hits / of
    middle, root = share + z * z / (2 * of), z * math.sqrt(share * (1 - share) / of + z * z / (4 * of * of))
    return 100 * (middle - root) / (1 + z * z / of), 100 * (middle + root) / (1 + z * z / of)


def scored(rows):
    return [row for row in rows if row.found and row.known]


def summary_line(name, rows):
    """Cells of one line: a quantity's, a family's or all rows'."""
    given = scored(rows)
    absent = sum(row.found is None and row.known for row in rows)
    vague = sum(not row.known for row in rows)
    if not given:
        return [name, "0", str(vague), str(absent), *["n/a"] * 7]
    hits = sum(row.covered for row in given)
    low, high = binomial_interval(hits, len(given))
    sized = [row for row in given if row.scale]
    unit, factor = ("points", 1) if all(row.share for row in given) else ("%", 100)
    median = [f"{factor * statistics.median(values):{sign}.1f} {unit}" for values, sign in (
        ([row.half_width for row in sized], ""), ([row.error for row in sized], "+"),
        ([abs(row.error) for row in sized], ""))] if sized else ["n/a"] * 3
    score = f"{factor * statistics.median(row.interval_score for row in sized):.0f}" if sized else "n/a"
    mean = f"{factor * statistics.mean(row.interval_score for row in sized):.0f}" if sized else "n/a"
    wide = sum(row.wide for row in sized)
    return [name, str(len(given)), str(vague), str(absent), f"{100 * hits / len(given):.0f} % ({low:.0f} to {high:.0f})",
            *median, score, mean, f"{100 * wide / len(sized):.0f} %" if sized else "n/a"]


HEADS = ["", "n", "truth open", "no estimate", "95 % intervals hold the truth", "half-width", "signed error", "absolute error",
         "interval score, median", "mean", "wider than a factor of 2"]


def counts_only(rows):
    """Rows whose figures are relative, without the bandwidth, which is `dram` once more, and without loops."""
    return [row for row in rows if not row.share and row.quantity not in ("bandwidth", PASSES)]


def tables(rows):
    """Cells: by quantity and of all; by family; by circumstance."""
    by_quantity = [HEADS, *(summary_line(name, [row for row in rows if row.quantity == name]) for name in (*QUANTITIES, PASSES)),
                   summary_line("all bytes and counts", counts_only(rows)),
                   summary_line("all shares", [row for row in rows if row.share])]
    groups = []
    for kind, head in (("families", "family"), ("circumstances", "circumstance")):
        names = sorted({name for row in rows for name in getattr(row, kind)})
        groups.append([[head, *HEADS[1:]], *(summary_line(name, [row for row in counts_only(rows) if name in getattr(row, kind)])
                                             for name in names)])
    return by_quantity, *groups


def worst(rows, most=10):
    """The programs with the largest interval scores, each with its worst figure, of bytes and counts."""
    of_program = {}
    for row in scored(counts_only(rows)):
        if row.scale and row.interval_score > of_program.get(row.program, (0, None))[0]:
            of_program[row.program] = row.interval_score, row
    sized = [row for _, row in of_program.values()]
    lines = [["program", "families", "quantity", "truth", "estimate", "interval", "interval score"]]
    for row in sorted(sized, key=lambda row: -row.interval_score)[:most]:
        value, low, high = row.found
        ends = dict.fromkeys(f"{end:.4g}" for end in row.truth)
        lines.append([row.program, ", ".join(row.families), row.quantity, " to ".join(ends), f"{value:.4g}",
                      f"{low:.4g} to {high:.4g}", f"{100 * row.interval_score:.0f} %"])
    return lines
