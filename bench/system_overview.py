#!/usr/bin/env python3
"""What `collect system-overview` costs a program per page fault and per system call, and whether its counts are right.

Cost: each round runs the program natively, under fathom, under fathom without tracing the kernel (`hotspots`), and under
`perf record -e page-faults -c 1 -d`, in an order that changes from round to round. Time is the program's own CPU time
(getrusage), so that other programs on the machine matter less; the difference to the native run of the same round,
divided by the number of entries, is the cost of one. Times 150,000 a second it is the overhead at that rate.

Counts: page faults against getrusage, system calls against `perf stat` of the same tracepoint and against what the program
knows; then two programs at once that do nothing but system calls.
"""
import json
import os
import random
import re
import statistics
import subprocess
import sys

import common

PAGES, ROUNDS_OF_PAGES, CALLS = 100_000, 5, 1_000_000
TOUCH = [f"{common.PROGRAMS}/touch_pages", "--pages", str(PAGES), "--rounds", str(ROUNDS_OF_PAGES)]
CALL = [f"{common.PROGRAMS}/kernel_entries", "--calls", str(CALLS), "--sleeps", "1"]
MATRIX = [f"{common.RECIPES}/multiply2", "--size", "1536", "--threads", "2"]
HUGE = {**os.environ, "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
RATE = 150_000


def fathom(analysis, result, command):
    return [common.FATHOM, "collect", analysis, "-q", "-k", "dram-bandwidth-limits=false", "-r", result, "--", *command]


def rows_of(result):
    text = common.run([common.FATHOM, "report", "kernel", "-r", result, "--format", "json"])
    return json.loads(text)


def count(view, cause, name):
    found = [row["entries"]["value"] for row in view["rows"] if (row["cause"], row["name"]) == (cause, name)]
    return sum(found)


def lost(result):
    text = common.run([common.FATHOM, "report", "kernel", "-r", result])
    found = re.search(r"(\d+) entries were lost", text)
    return int(found.group(1)) if found else 0


def cost(command, entries, rounds, with_perf):
    """Rows of the table of costs, nanoseconds of CPU per entry."""
    whos = ["native", "system-overview", "hotspots"] + (["perf record -d"] if with_perf else [])
    times = {who: [] for who in whos}
    for round_number in range(rounds):
        order = list(whos)
        random.Random(round_number).shuffle(order)
        for who in order:
            with common.scratch() as folder:
                wrapped = {
                    "native": command,
                    "system-overview": fathom("system-overview", f"{folder}/r", command),
                    "hotspots": fathom("hotspots", f"{folder}/r", command),
                    "perf record -d": ["perf", "record", "-q", "-e", "page-faults", "-c", "1", "-d", "-o",
                                       f"{folder}/perf.data", "--", *command],
                }[who]
                times[who].append(common.value(common.run(wrapped), "process_cpu_ns"))
    table = []
    for who in whos[1:]:
        each = [(a - b) / entries for a, b in zip(times[who], times["native"])]
        low, high = common.interval(each)
        middle = statistics.median(each)
        table.append((who, middle, low, high, middle * RATE / 1e7))
    return statistics.median(times["native"]) / entries, table


def perf_stat(command):
    """System calls of a program as `perf stat` counts them; None where perf cannot."""
    script = 'mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null; exec perf stat -x, -e raw_syscalls:sys_exit -- "$@"'
    done = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", *command], capture_output=True, text=True)
    for line in done.stderr.splitlines():
        words = line.split(",")
        if "sys_exit" in line and words[0].isdigit():
            return int(words[0])
    return None


def counts():
    lines = []
    with common.scratch() as folder:
        result = f"{folder}/r"
        common.run(fathom("system-overview", result, TOUCH))
        usage = json.load(open(f"{result}/run.json"))["resource_use"]
        kernels = usage["minor_faults"] + usage["major_faults"]
        view = rows_of(result)
        ours = count(view, "page fault", "in program") + count(view, "page fault", "in kernel")
        lines.append(("page faults of touch_pages", ours, kernels, "getrusage(2)"))
    with common.scratch() as folder:
        result = f"{folder}/r"
        common.run(fathom("system-overview", result, CALL))
        view = rows_of(result)
        lines.append(("getppid of kernel_entries", count(view, "system call", "getppid"), CALLS, "the program"))
        calls = sum(row["entries"]["value"] for row in view["rows"] if row["cause"] == "system call")
        theirs = perf_stat(CALL)
        if theirs is not None:
            lines.append(("all its system calls", calls, theirs, "perf stat -e raw_syscalls:sys_exit"))
    return lines


def flood():
    """Two programs at once: entries per second, what was counted, whether anything was lost."""
    with common.scratch() as folder:
        result = f"{folder}/r"
        both = ["sh", "-c", '"$@" & "$@"; wait', "sh", *CALL]
        common.run(fathom("system-overview", result, both))
        view = rows_of(result)
        seconds = json.load(open(f"{result}/run.json"))["elapsed_ns"] / 1e9
        size = sum(os.path.getsize(f"{result}/{name}") for name in os.listdir(result))
        return (view["total"]["entries"]["value"] / seconds, count(view, "system call", "getppid"), 2 * CALLS,
                lost(result), size)


def matrix(environment):
    """Kernel share of the CPU time in percent, and entries, of a matrix multiplication."""
    with common.scratch() as folder:
        result = f"{folder}/r"
        common.run(fathom("system-overview", result, MATRIX), environment)
        text = common.run([common.FATHOM, "report", "summary", "-r", result, "--format", "json"])
        summary = json.loads(text)
        entries = summary["kernel_entries"]
        return (summary["kernel_time_percent"]["value"], entries["count"]["value"], entries["per_second"]["value"],
                summary["page_faults"]["minor"]["value"])


def main():
    options = common.arguments()
    common.prepare()
    with_perf = subprocess.run(["sh", "-c", "command -v perf"], capture_output=True).returncode == 0
    text = ["# System overview: cost and counts", "", common.machine(), "",
            f"{options.rounds} rounds; median and 95 % bootstrap interval. CPU time of the program itself, less that of the "
            f"native run of the same round, per entry; at {RATE:,} entries a second this is the overhead in the last column.",
            "", "| entry | native | under | added | at that rate |", "|---|---|---|---|---|"]
    for name, command, entries, perf in [
            ("page fault", TOUCH, PAGES * ROUNDS_OF_PAGES, with_perf), ("2 system calls and 1 fault", CALL, CALLS, False)]:
        native, table = cost(command, entries, options.rounds, perf)
        for who, middle, low, high, share in table:
            text.append(f"| {name} | {native:.0f} ns | {who} | {middle:.0f} ns ({low:.0f}..{high:.0f}) | {share:.1f} % |")
            print(text[-1], flush=True)
    text += ["", "| what | counted | true | by |", "|---|---|---|---|"]
    text += [f"| {what} | {ours:,.0f} | {theirs:,.0f} | {who} |" for what, ours, theirs, who in counts()]
    rate, ours, theirs, is_lost, size = flood()
    text += ["", f"Two programs at once: {rate:,.0f} entries a second; {ours:,.0f} getppid counted of {theirs:,}; "
             f"{is_lost} lost, counted; result {size / 1e3:.0f} KB.", "",
             "| multiply2, 1536 x 1536 doubles, 2 threads | time in the kernel | entries | per second | page faults |",
             "|---|---|---|---|---|"]
    found = {"pages of 4 KiB": matrix(None), "huge pages (glibc.malloc.hugetlb=1)": matrix(HUGE)}
    for name, (share, entries, rate, faults) in found.items():
        text.append(f"| {name} | {share:.1f} % | {entries:,.0f} | {rate:,.0f} | {faults:,.0f} |")
    small, huge = found.values()
    text += ["", f"Entries {small[1] / huge[1]:.1f} times fewer with huge pages, page faults {small[3] / huge[3]:.1f} times."]
    print("\n".join(text))
    if options.store:
        common.store("system-overview", "\n".join(text) + "\n")


if __name__ == "__main__":
    sys.exit(main())
