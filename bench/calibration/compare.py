#!/usr/bin/env python3
"""Our bandwidth calibration against likwid-bench, alternating, in one go.

    bench/calibration/compare.py [--rounds N] [--size MB] [--seconds S] [--priority]

Each round runs likwid-bench (Debian package likwid) over its load, store, copy and triad kernels, and then our whole
calibration (crates/calibrate/examples/show.rs --peak). Both sides see so the same minute of a noisy machine. Prints a
table and stores it in results/. Exit code 0 when the comparison could be made, whatever it says; 3 when it could not.

Conventions. likwid-bench counts the bytes that the program itself loads and stores ("Load/Store bytes per element" of
`likwid-bench -l KERNEL`), without write-allocate reads: the same as our "program" rate. likwid's `stream` is our
`triad` (a = b + s*c, 24 bytes per element); its `triad` has one more array (a = b * c + d, 32 bytes). On the bus, an
ordinary store adds a read of its line: store 2x, copy 3/2x, triad 4/3x, 4-array triad 5/4x. For kernels without
ordinary stores (load, *_mem_*) program and bus bytes are the same: only they count for the peak, on both sides.
likwid-bench maps its arrays with base pages where transparent huge pages are "madvise"; we ask for 2 MB pages.
"""

import argparse
import datetime
import os
import re
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
SHOW = os.path.join(os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target")), "release/examples/show")

# Ours, likwid's kernels of the same traffic (without the SIMD suffix), bus bytes per program byte.
PAIRS = [
    ("load", "load", 1.0),
    ("store", "store", 2.0),
    ("store-nt", "store_mem", 1.0),
    ("copy", "copy", 1.5),
    ("copy-nt", "copy_mem", 1.0),
    ("triad", "stream", 4 / 3),
    ("triad-nt", "stream_mem", 1.0),
]
# Certain bus traffic too, but no counterpart here.
ONLY_LIKWID = [("triad_mem", 1.0)]
# Passes per run of likwid-bench: 0.3 s at 40 GB/s with the default working set.
ITERATIONS = 10
CERTAIN = {"load", "store_mem", "copy_mem", "stream_mem", "triad_mem"}


def fail(reason):
    print(f"skipped: {reason}", file=sys.stderr)
    sys.exit(3)


def likwid(kernel, simd, megabytes, threads):
    """Program GB/s of one run of ITERATIONS passes, or None when this build lacks the kernel."""
    command = ["likwid-bench", "-t", f"{kernel}_{simd}", "-i", str(ITERATIONS), "-w", f"S0:{megabytes}MB:{threads}"]
    run = subprocess.run(command, capture_output=True, text=True)
    found = re.search(r"^MByte/s:\s+([0-9.]+)", run.stdout, re.M)
    return float(found.group(1)) / 1e3 if found else None


def ours(seconds):
    """{kernel: program GB/s (median) with all threads}, (peak, low), text of the peak."""
    run = subprocess.run([SHOW, "--peak", str(seconds)], capture_output=True, text=True)
    rates = {}
    most = 0
    for kernel, threads, rate in re.findall(r"^(\S+)\s+(\d+) threads   program ([0-9.]+) GB/s", run.stdout, re.M):
        most = max(most, int(threads))
        rates[kernel, int(threads)] = float(rate)
    peak = re.search(r"^peak ([0-9.]+) GB/s \[([0-9.]+) .. [0-9.]+\] n=\d+ by (.*)$", run.stdout, re.M)
    if not peak:
        fail(f"our measurement printed no peak: {run.stdout} {run.stderr}")
    detail = re.search(r"median pass reached ([0-9.]+)", run.stdout)
    usual = float(detail.group(1)) if detail else float("nan")
    return {kernel: rate for (kernel, threads), rate in rates.items() if threads == most}, \
        float(peak.group(1)), usual, peak.group(3)


def busy_share(before):
    """Share of all CPU time spent since `before` (list of ticks), and the ticks now."""
    with open("/proc/stat", encoding="ascii") as stat:
        ticks = [int(field) for field in stat.readline().split()[1:9]]
    if before is None:
        return None, ticks
    spent = [now - then for now, then in zip(ticks, before)]
    return 1 - (spent[3] + spent[4]) / max(sum(spent), 1), ticks


def line(name, values):
    values = [value for value in values if value is not None]
    if not values:
        return f"{name} | - | - | -"
    return f"{name} | {statistics.median(values):.1f} | {min(values):.1f} .. {max(values):.1f} | {max(values):.1f}"


def machine_text():
    def read(path, pattern):
        try:
            with open(path, encoding="utf-8") as file:
                found = re.search(pattern, file.read(), re.M)
            return found.group(1).strip() if found else "?"
        except OSError:
            return "?"
    cpu = read("/proc/cpuinfo", r"^model name.*: (.*)$")
    family, model = read("/proc/cpuinfo", r"^cpu family.*: (.*)$"), read("/proc/cpuinfo", r"^model\s*: ([0-9]+)$")
    memory = read("/proc/meminfo", r"^MemTotal: *(.*)$")
    cache = read("/sys/devices/system/cpu/cpu0/cache/index3/size", r"^(.*)$")
    pages = read("/sys/kernel/mm/transparent_hugepage/enabled", r"\[(.*)\]")
    virtual = "yes" if "hypervisor" in read("/proc/cpuinfo", r"^flags.*: (.*)$") else "no"
    return "\n".join([
        f"- CPU: {cpu}, {os.cpu_count()} CPUs, family {family} model {model}; virtual machine: {virtual}",
        f"- memory: {memory}; claimed L3: {cache}",
        f"- kernel: {os.uname().release}; transparent huge pages: {pages}",
    ])


def raise_priority():
    """A session of our own with the highest weight: under autogroups (man 7 sched) nice alone does nothing."""
    try:
        os.setsid()
    except OSError:
        pass  # Already a session leader.
    try:
        os.setpriority(os.PRIO_PROCESS, 0, -19)
        with open("/proc/self/autogroup", "w", encoding="ascii") as autogroup:
            autogroup.write("-19")
    except OSError as error:
        print(f"no higher priority: {error}", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--size", type=int, default=1280, help="likwid's working set, MB")
    parser.add_argument("--seconds", type=int, default=12, help="time limit of one calibration of ours")
    parser.add_argument("--priority", action="store_true",
                        help="put both sides before the other programs of a busy machine (needs root)")
    arguments = parser.parse_args()
    if arguments.priority:
        raise_priority()
    if subprocess.run(["which", "likwid-bench"], capture_output=True).returncode != 0:
        fail("likwid-bench is not installed (apt install likwid)")
    build = ["cargo", "build", "--quiet", "--release", "-p", "calibrate", "--example", "show"]
    if subprocess.run(build, cwd=ROOT).returncode != 0:
        fail("the calibration does not build")
    with open("/proc/cpuinfo", encoding="utf-8") as cpuinfo:
        flags = cpuinfo.read()
    simds = ["avx512", "avx"] if " avx512f " in flags else ["avx"]
    threads = len(os.sched_getaffinity(0))

    theirs_by_kernel, ours_by_kernel = {}, {}
    rounds = []
    for number in range(arguments.rounds):
        _, ticks = busy_share(None)
        best = (0.0, "")
        for kernel, bus in [(k, b) for _, k, b in PAIRS] + ONLY_LIKWID:
            for simd in simds:
                rate = likwid(kernel, simd, arguments.size, threads)
                theirs_by_kernel.setdefault(kernel, []).append(rate)
                if rate and kernel in CERTAIN:
                    best = max(best, (rate * bus, f"{kernel}_{simd}"))
        rates, peak, usual, peak_kernel = ours(arguments.seconds)
        busy, _ = busy_share(ticks)
        for kernel, rate in rates.items():
            ours_by_kernel.setdefault(kernel, []).append(rate)
        rounds.append((best, peak, usual, peak_kernel, busy))
        print(f"round {number + 1}: likwid {best[0]:.1f} ({best[1]}), ours {peak:.1f} ({peak_kernel}), "
              f"median pass {usual:.1f}, ratio {peak / best[0]:.3f}, CPUs busy {busy:.0%}", file=sys.stderr)

    ratios = [peak / best[0] for best, peak, *_ in rounds]
    usual_ratios = [usual / best[0] for best, _, usual, *_ in rounds]
    text = [
        "# Bandwidth: our calibration beside likwid-bench", "",
        f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M} UTC, {len(rounds)} rounds, alternating, "
        f"{threads} threads, likwid with {arguments.size} MB; GB/s = 1e9 bytes per second. Our time limit: "
        f"{arguments.seconds} s (default of the product: 18 s). Raised priority: {'yes' if arguments.priority else 'no'}.", "", machine_text(), "",
        "## Peak on the bus (kernels without ordinary stores)", "",
        "round | likwid's best | kernel | our peak (best pass) | our median pass | kernel | peak / likwid | CPUs busy",
        "---|---|---|---|---|---|---|---",
    ]
    for number, (best, peak, usual, kernel, busy) in enumerate(rounds, 1):
        text.append(f"{number} | {best[0]:.1f} | {best[1]} | {peak:.1f} | {usual:.1f} | {kernel} | "
                    f"{peak / best[0]:.3f} | {busy:.0%}")
    text += [
        "",
        f"Ratio of our peak to likwid's best of the same round: median **{statistics.median(ratios):.3f}**, "
        f"range {min(ratios):.3f} .. {max(ratios):.3f}.",
        f"With our median pass instead of the best: median {statistics.median(usual_ratios):.3f}, "
        f"range {min(usual_ratios):.3f} .. {max(usual_ratios):.3f}.",
        f"Best of all rounds: likwid {max(best[0] for best, *_ in rounds):.1f}, "
        f"ours {max(peak for _, peak, *_ in rounds):.1f}. likwid's figure is the mean of {ITERATIONS} passes, "
        "ours is a single pass over the working set (tens of milliseconds): on a noisy machine the best pass is "
        "above the mean of several, hence both ratios.", "",
        "## Kernel by kernel, program bytes (no write-allocate), all threads", "",
        "ours | median | range | best | likwid | median | range | best | ratio of medians", "---|---|---|---|---|---|---|---|---",
    ]
    for kernel, theirs, _ in PAIRS:
        mine = ours_by_kernel.get(kernel, [])
        other = [rate for rate in theirs_by_kernel.get(theirs, []) if rate]
        ratio = f"{statistics.median(mine) / statistics.median(other):.2f}" if mine and other else "-"
        text.append(f"{line(kernel, mine)} | {line(theirs, other)} | {ratio}")
    for theirs, _ in ONLY_LIKWID:
        text.append(f"- | - | - | - | {line(theirs, theirs_by_kernel.get(theirs, []))} | -")
    text.append("")
    text.append(f"likwid's values are of its {' and '.join(simds)} variants together; ours of the widest vectors.")
    whole = "\n".join(text) + "\n"
    print(whole)
    name = f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d-%H%M}.md"
    os.makedirs(os.path.join(HERE, "results"), exist_ok=True)
    with open(os.path.join(HERE, "results", name), "w", encoding="utf-8") as file:
        file.write(whole)


if __name__ == "__main__":
    main()
