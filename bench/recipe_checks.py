"""What the four recipes must conclude, read from the JSON of the results that bench/recipes.py leaves in a folder.

The names of results (`before`, `naive`, ...) are those of docs/guide/recipe-N.md. What not: running the programs. A
`must` is a count, a name or a text, which no load of the machine changes; all else depends on the `machine`: its speed,
who else uses it, and whether it has free huge pages.
"""
import json
import math
import os
import re
import subprocess

import common

SMALL_PAGE, HUGE_PAGE = 4 << 10, 2 << 20
# What the total of `kernel` counts; its other rows are no entries.
ENTRIES = ("page fault", "system call", "interrupt", "soft interrupt")
# glibc 2.36 keeps this much per thread on the heap (its thread-local storage vector).
BYTES_PER_THREAD = 272


class Checks:
    """The conclusions of one recipe, as they are found."""

    def __init__(self, number, folder, environment):
        self.number, self.folder, self.environment = number, folder, environment
        self.rows, self.wrong = [], 0

    def json(self, view, result):
        """A view of a result."""
        command = ["fathom", "report", view, "-r", result, "--format", "json", "--limit", "100000"]
        done = subprocess.run(command, cwd=self.folder, env=self.environment, capture_output=True, text=True, check=True)
        return json.loads(done.stdout)

    def triad(self, threads):
        """GB/s on the bus that a triad with ordinary stores reached here, alone; NaN where that was not measured."""
        command = ["fathom", "machine", "--format", "json"]
        done = subprocess.run(command, cwd=self.folder, env=self.environment, capture_output=True, text=True, check=True)
        points = json.loads(done.stdout)["calibration"]["bandwidth"]
        rates = [value(point["bus"]) for point in points if (point["kernel"], point["threads"]) == ("triad", threads)]
        return rates[0] if rates else math.nan

    def saved(self, name):
        """What a command of the guide wrote into the folder."""
        with open(os.path.join(self.folder, name)) as file:
            return file.read()

    def add(self, kind, conclusion, figures, holds):
        word = "ok" if holds else "NOT MET"
        self.wrong += kind == "must" and not holds
        self.rows.append(f"| R{self.number} | {kind} | {conclusion} | {figures} | {word} |")
        print(f"  {word:8} {kind:7} {conclusion}: {figures}", flush=True)

    def must(self, conclusion, figures, holds):
        self.add("must", conclusion, figures, holds)

    def machine(self, conclusion, figures, holds):
        self.add("machine", conclusion, figures, holds)


def value(metric):
    """NaN, which no comparison holds for, where the figure cannot be had."""
    return math.nan if metric is None or metric["value"] is None else metric["value"]


def shown(figure, form):
    """A number as text; a number that is none is unknown."""
    return format(figure, form) if math.isfinite(figure) else "unknown"


def said(metric, form, unit):
    """A metric as text with its unit; without a value, why there is none."""
    if math.isfinite(value(metric)):
        return f"{value(metric):{form}} {unit}".strip()
    why = metric and metric["note"]
    return f"unknown ({why})" if why else "unknown"


def findings(checks, result):
    """{id: row}, most seconds first."""
    found = {}
    for row in checks.json("findings", result)["rows"]:
        if row["id"] is not None:
            found.setdefault(row["id"], row)
    return found


def source_line(place):
    """The text at `file` and `line` of a row; empty where that is not known."""
    try:
        return open(place["file"]).read().splitlines()[place["line"] - 1]
    except (OSError, TypeError, IndexError):
        return ""


def variable(row):
    """Name of the variable that gets the object's block: from the line that allocates, e.g. `main matrix.c:155`."""
    place = re.search(r"(\S+):(\d+)$", row["object"] or "")
    if not place:
        return row["object"]
    path = os.path.join(common.ROOT, "recipes", os.path.basename(place.group(1)))
    found = re.search(r"(\w+) = malloc", source_line({"file": path, "line": int(place.group(2))}))
    return found.group(1) if found else row["object"]


def objects(checks, result, column):
    """[(variable, figure)] of the objects, largest first."""
    rows = [row for row in checks.json("objects", result)["rows"] if not math.isnan(value(row[column]))]
    return sorted(((variable(row), value(row[column])) for row in rows), key=lambda pair: -pair[1])


def load_seconds(checks, result):
    """[(variable, seconds)]: loads times their mean latency, largest first. Loads that overlap count each."""
    rows = [(variable(row), 1e-9 * value(row["loads"]) * value(row["latency"])) for row in checks.json("objects", result)["rows"]]
    return sorted((pair for pair in rows if not math.isnan(pair[1])), key=lambda pair: -pair[1])


def few(pairs, unit):
    return ", ".join(f"{name} {figure:.3g} {unit}" for name, figure in pairs[:3])


def persistent_memory(checks):
    """R1."""
    hot = checks.json("hotspots", "before")["rows"][0]
    checks.must("hottest function is the library's inlined one", f"{hot['function']} {said(hot['self_percent'], '.1f', '%')}",
                hot["function"] == "pmemobj_direct_inline" and hot["file"].endswith("libpmemobj/base.h"))
    found = findings(checks, "before")
    advice = found.get("repeated-loads")
    line = source_line(advice or {})
    checks.must("advice to hoist it, at the line of the loop", f"{', '.join(found)}; `{line.strip()}`",
                bool(advice) and "pmemobj_direct_inline once before the loop" in advice["advice"] and "D_RW(c)[i]" in line)
    checks.must("bandwidth is not called the limit", ", ".join(found), "bandwidth-saturated" not in found)
    gone = [row for row in checks.json("hotspots", "after")["rows"] if row["function"] == "pmemobj_direct_inline"]
    share = max((value(row["self_percent"]) for row in gone), default=0.0)
    checks.must("after: that function is gone", f"{shown(share, '.1f')} % of the CPU time", share < 1)
    before, after = (checks.json("summary", name) for name in ("before", "after"))
    peak = value(before["machine"]["dram_bandwidth_peak"])
    used = [value(one["dram_bandwidth"]["observed_max"]) for one in (before, after)]
    checks.machine("before: bandwidth far below the peak", f"{shown(used[0], '.1f')} of {shown(peak, '.1f')} GB/s", used[0] < peak / 2)
    checks.machine("after: at least 80 % of the peak", f"{shown(used[1], '.1f')} of {shown(peak, '.1f')} GB/s", used[1] >= 0.8 * peak)
    # The peak is reached by stores past the caches, which this program has none of.
    triad = checks.triad(threads=2)
    checks.machine("after: at least 80 % of what a triad with ordinary stores reaches", f"{shown(used[1], '.1f')} of {shown(triad, '.1f')} GB/s",
                   used[1] >= 0.8 * triad)
    loops = [common.value(checks.saved(f"{name}.txt"), "loop_seconds") for name in ("before", "after")]
    checks.machine("after: loop at least 5 times faster", f"{loops[0]:.2f} s, {loops[1]:.2f} s: {loops[0] / loops[1]:.1f} times",
                   loops[0] >= 5 * loops[1])
    gain = value(advice["predicted_gain"]) if advice else math.nan
    saved = value(before["elapsed"]) - value(after["elapsed"])
    checks.machine("predicted gain within a factor of 2", f"predicted {shown(gain, '.2f')} s, came {shown(saved, '.2f')} s",
                   saved / 2 <= gain <= saved * 2)


def entries(view, cause):
    return sum(value(row["entries"]) for row in view["rows"] if row["cause"] == cause)


def huge_pages(checks):
    """R2."""
    program = checks.saved("heap.txt")
    matrices, threads = common.value(program, "matrix_bytes"), common.value(program, "threads")
    view = checks.json("allocations", "heap")
    total = value(view["total"]["bytes_allocated"])
    expected = matrices + BYTES_PER_THREAD * threads
    checks.must("exact total of the heap", f"{total:.0f} bytes; by arithmetic {expected:.0f}", total == expected)
    rows = sum(value(row["bytes_allocated"]) for row in view["rows"])
    checks.must("call stacks sum to it", f"{rows:.0f} bytes", rows == total)
    pages = math.ceil(total / HUGE_PAGE)
    stated = " ".join(view["notes"])
    checks.must("pages of 2 MiB by the formula", f"ceil({total:.0f} / {HUGE_PAGE}) = {pages}", f"would fill {pages} pages of 2 MB" in stated)
    article = math.ceil(2147557472 / HUGE_PAGE)
    checks.must("the article's total by the same formula", f"{article} pages", article == 1025)
    small, huge = checks.json("kernel", "small-pages"), checks.json("kernel", "huge-pages")
    faults = [entries(one, "page fault") for one in (small, huge)]
    share = value(checks.json("summary", "huge-pages")["huge_page_share"]) / 100
    # Of the matrices' memory this share took a fault per 2 MiB, the rest, for which no huge page was free, one per 4 KiB.
    rest = matrices / SMALL_PAGE * (1 - share) + matrices / HUGE_PAGE * share
    checks.must("page faults fall as the share in huge pages says", f"{shown(100 * share, '.1f')} % in huge pages: {shown(rest, '.0f')} faults, {faults[1]:.0f} counted",
                abs(faults[1] - rest) <= 0.02 * faults[0])
    checks.machine("page faults at least 8 times fewer with huge pages", f"{faults[0]:.0f}, {faults[1]:.0f}: {faults[0] / faults[1]:.1f} times",
                   faults[0] >= 8 * faults[1])
    every = [value(one["total"]["entries"]) for one in (small, huge)]
    checks.machine("all kernel entries at least 8 times fewer", f"{every[0]:.0f}, {every[1]:.0f}: {every[0] / every[1]:.1f} times",
                   every[0] >= 8 * every[1])
    largest = max((row for row in small["rows"] if row["cause"] in ENTRIES), key=lambda row: value(row["entries"]))
    checks.must("page faults are the most entries", f"{largest['cause']} {said(largest['entries'], '.0f', '')}", largest["cause"] == "page fault")


def core_bytes_per_second(transfers, clocks, hertz):
    """Core microarchitecture: 64 x BUS_TRANS_MEM.ALL_AGENTS x f / CPU_CLK_UNHALTED.CORE (recipe R3, method of the article)."""
    return 64 * transfers * hertz / clocks


def uncore_bytes_per_second(reads, full_writes, seconds):
    """Nehalem: (UNC_IMC_NORMAL_READS.ANY + UNC_IMC_WRITES.FULL.ANY) x 64 / seconds: of the whole system, not of a function."""
    return 64 * (reads + full_writes) / seconds


def saturation(checks):
    """R3."""
    transfers, clocks, hertz = 1_419_200_000, 35_576_000_000, 2.9e9
    core = 1e-9 * core_bytes_per_second(transfers, clocks, hertz)
    checks.must("formula of the Core counters on the article's figures", f"{core:.2f} GB/s", f"{core:.2f}" == "7.40")
    # The article has no figures of its own for the second formula: the same transfers in the same time are the same rate.
    uncore = 1e-9 * uncore_bytes_per_second(transfers, 0, clocks / hertz)
    checks.must("formula of the uncore counters on the same", f"{uncore:.2f} GB/s", f"{uncore:.2f}" == "7.40")
    parts = objects(checks, "two", "dram_percent")[:3]
    checks.must("the arrays a, b, c use the bandwidth", few(parts, "%"),
                {name for name, _ in parts} == {"a", "b", "c"} and sum(part for _, part in parts) > 95)
    sweep = json.loads(checks.saved("sweep/scale.json"))
    points = {row["threads"]: row for row in sweep["table"]["rows"]}
    rates = "; ".join(f"{threads}: {said(row['speedup'], '.2f', 'times')}, {said(row['dram_bandwidth'], '.1f', 'GB/s')}"
                      for threads, row in points.items())
    # Two figures: from where on the program gets no faster, and from where on memory moves no more. The second one is unknown
    # where only the largest number of threads has the largest traffic.
    stop, most = sweep["saturation"], sweep["bandwidth_saturation"]
    checks.machine("verdict: more threads do not help", f"from {said(stop, '.1f', 'threads')} on ({rates})", math.isfinite(value(stop)))
    checks.machine("verdict: memory is saturated", f"threads of the largest traffic: {said(most, '.0f', '')}", math.isfinite(value(most)))
    further = sweep["next"]
    gain = value(further["gain"]) if further else math.nan
    checks.machine("the next thread brings nothing",
                   f"{said(further['gain'], '.1f', '%')} by {further['threads']} threads" if further else "no law fits", gain < 5)
    found = findings(checks, "two")
    checks.machine("finding: bandwidth saturated, more threads will not help", ", ".join(found) or "none", "bandwidth-saturated" in found)
    times = [value(row["cpu_time"]) for row in checks.json("threads", "waits")["rows"]]
    checks.machine("threads are balanced", ", ".join(f"{shown(one, '.2f')} s" for one in times), max(times) <= 1.25 * min(times))


def between(view, low, high):
    """Percent of the loads in bins from `low` to `high` nanoseconds; a bin counts by its middle."""
    bins = [row for row in view["rows"] if row["to"]]
    return sum(value(row["load_percent"]) for row in bins if low <= (float(row["from"]) + float(row["to"])) / 2 < high)


def scalability(checks):
    """R4."""
    sweep = json.loads(checks.saved("sweep/scale.json"))["table"]["rows"]
    table = "; ".join(f"{row['threads']}: {said(row['speedup'], '.2f', 'times')}, {said(row['flop_rate'], '.2f', 'GFLOP/s')}, "
                      f"{said(row['flops_percent'], '.1f', '%')}" for row in sweep)
    checks.machine("naive: at most a tenth of the machine's peak", table, all(value(row["flops_percent"]) <= 10 for row in sweep))
    slow = load_seconds(checks, "naive")
    checks.machine("naive: b has most of the time of loads", few(slow, "s"), bool(slow) and slow[0][0] == "b")
    far = objects(checks, "naive", "dram_percent")
    checks.must("naive: b is the object that memory has to deliver", few(far, "%"), bool(far) and far[0][0] == "b" and far[0][1] > 80)
    walk = findings(checks, "naive").get("strided-walk")
    checks.must("naive: advice with a tile size", walk["advice"] if walk else "no finding", bool(walk) and bool(re.search(r"block them: at most \d+ lines.*blocks of \d+ x \d+ elements", walk["advice"])))
    traffic = objects(checks, "interchanged", "dram_percent")
    checks.must("interchanged: b causes the traffic with memory", few(traffic, "%"), bool(traffic) and traffic[0][0] == "b" and traffic[0][1] > 80)
    bound = findings(checks, "interchanged").get("bandwidth-saturated")
    checks.machine("interchanged: blocking advice with a tile size", bound["advice"] if bound else "no finding",
                   bool(bound) and bool(re.search(r"tiles? of (at most )?\d+", bound["advice"])))
    summaries = {name: checks.json("summary", name) for name in ("naive", "interchanged", "blocked", "library")}
    dram = [value(summaries[name]["levels"]["dram"]) for name in ("interchanged", "blocked")]
    checks.must("blocked: loads no longer come from memory", f"{shown(dram[0], '.1f')} %, {shown(dram[1], '.1f')} % of the loads", dram[1] * 8 < dram[0])
    near = [value(summaries[name]["levels"]["l2"]) for name in ("interchanged", "blocked")]
    checks.must("blocked: they come from L2 (simulated)", f"{shown(near[0], '.1f')} %, {shown(near[1], '.1f')} % of the loads", near[1] >= 20 and near[1] > near[0])
    ladder = summaries["blocked"]["machine"]["load_latency"]
    second, third = value(ladder["l2"]), value(ladder["l3"])
    if math.isfinite(second) and math.isfinite(third):
        share = between(checks.json("latency", "blocked"), 0.5 * second, 0.9 * third)
        span = f"{shown(share, '.0f')} % of the timed loads from {0.5 * second:.1f} to {0.9 * third:.1f} ns"
    else:
        share, span = math.nan, f"L2 {said(ladder['l2'], '.1f', 'ns')}, L3 {said(ladder['l3'], '.1f', 'ns')}"
    checks.machine("blocked: the histogram's mass is at L2", span, share >= 50)
    speeds = {name: common.value(checks.saved(f"{name}.txt"), "rate_gflop_per_s") for name in ("interchanged", "pinned", "blocked", "library")}
    figures = ", ".join(f"{name} {speed:.1f}" for name, speed in speeds.items()) + " GFLOP/s"
    checks.machine("pinned and first touch: hardly faster than interchanged", figures, speeds["pinned"] < 1.25 * speeds["interchanged"])
    checks.machine("blocked: faster than interchanged, near dgemm", figures,
                   speeds["blocked"] > speeds["interchanged"] and speeds["blocked"] > 0.5 * speeds["library"])


RECIPES = {1: persistent_memory, 2: huge_pages, 3: saturation, 4: scalability}
