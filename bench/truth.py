#!/usr/bin/env python3
"""Fathom's estimates against programs whose DRAM traffic is known by arithmetic or by an exact simulation of every access.

Each round runs every program alone and under `fathom run`, in an order that changes from round to round. An estimate is
Fathom's average rate times its elapsed time, so it covers the whole run, as the truth does. Error: of the median
estimate. Covered: runs whose interval holds the truth, of those that gave one. What Fathom does not give is n/a.
"""
import argparse
import json
import os
import random
import statistics
import subprocess
import sys

import common

sys.path.insert(0, os.path.join(common.ROOT, "bench", "truth"))
import programs  # noqa: E402

LEVELS = ("l1", "l2", "l3", "dram")
QUANTITIES = ("dram", "read", "write", "loads", "stores", "flops")
# Starting a process costs this much, which the programs do not state: an interval may miss the truth by it.
SLACK = {"dram": 1e7, "read": 1e7, "write": 1e7, "loads": 1e6, "stores": 1e6, "flops": 1e5}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5, help="pairs of runs per program (5)")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of the threaded rows (all CPUs); 1 leaves them out")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="only these programs (repeatable)")
    parser.add_argument("--quick", action="store_true", help="one run each, an eighth as long")
    parser.add_argument("--fathom", type=os.path.abspath, help="the program to test; without it, it is built")
    parser.add_argument("-k", "--knob", action="append", default=[], help="another knob for fathom")
    parser.add_argument("--store", action="store_true", help="keep the result in bench/results")
    options = parser.parse_args()
    if options.runs < 1 or options.threads < 1:
        parser.error("--runs and --threads are at least 1")
    return options


def chosen(options):
    """(program, threads) of each row of the table."""
    table = programs.rows()
    unknown = set(options.only) - {program.name for program in table}
    if unknown:
        sys.exit(f"no such program: {', '.join(sorted(unknown))}; there are: {', '.join(program.name for program in table)}")
    for program in table:
        if not options.only or program.name in options.only:
            yield program, 1
            if program.threads and options.threads > 1:
                yield program, options.threads


def last_line(output):
    """What the program states about itself."""
    return json.loads(next(line for line in reversed(output.splitlines()) if line.startswith('{"name"')))


def truth_of(program, threads, stated, simulated):
    """{quantity: truth}, with `levels` in percent, `by`, and `range` of the traffic where the size of the L3 matters.

    Arithmetic goes first. A simulation is of one thread: where several share the work and the last-level cache, it holds as
    far as the order of their accesses does not matter to that cache, and `by` says so.
    """
    truth = {"read": stated["read_bytes"], "write": stated["written_bytes"], "by": "arithmetic", "range": None,
             "levels": {level: None if stated[level] is None else 100 * stated[level] for level in LEVELS},
             **{key: stated[key] for key in ("loads", "stores", "flops")}}
    figures = simulated["programs"].get(program.name)
    if figures and figures["command"] == program.command:
        by = "simulation" if threads == 1 else "simulation of 1 thread"
        add_simulated(truth, by, lambda key: max(0, figures[key][0] + figures[key][1] * stated["repeat"]))
    elif truth["read"] is None:
        truth["by"] = "unknown"
    truth["dram"] = None if truth["read"] is None else truth["read"] + truth["write"]
    return truth


def add_simulated(truth, by, at):
    """Fills in what arithmetic left open. `at(key)`: the simulated figure of the whole run."""
    if truth["read"] is None:
        truth.update(read=at("read_bytes nominal"), write=at("written_bytes nominal"), by=by)
        totals = [at(f"read_bytes {size}") + at(f"written_bytes {size}") for size in ("half", "nominal", "double")]
        truth["range"] = min(totals), max(totals)
    if truth["levels"]["l1"] is None:
        beyond = {"l2": at("l2"), "l3": at("l3 nominal"), "dram": at("dram nominal")}
        shares = {level: 100 * count / truth["loads"] for level, count in beyond.items()}
        truth["levels"] = {"l1": 100 - sum(shares.values()), **shares}


def scaled(metric, factor):
    """A metric as (value, low, high), or None."""
    if not isinstance(metric, dict) or metric.get("value") is None:
        return None
    bounds = [metric["value"] if metric.get(key) is None else metric[key] for key in ("low", "high")]
    return tuple(factor * number for number in (metric["value"], *bounds))


def classification(summary):
    """Fathom's own label, else the first finding that is one, else 'none'."""
    own = summary.get("classification")
    if isinstance(own, dict):
        own = own.get("value") or own.get("class") or own.get("label")
    labels = [own, *(finding.get("id") for finding in summary.get("findings", []))]
    known = (programs.BANDWIDTH, programs.LATENCY, programs.CORE, programs.TLB)
    return next((label for label in labels if label in known), "none")


def estimates_of(summary):
    """{quantity: (value, low, high) or None} of one run, in bytes and counts; `levels` in percent; `class`."""
    seconds = summary["elapsed"]["value"]
    bandwidth = summary["dram_bandwidth"]
    found = {"dram": scaled(bandwidth["average"], 1e9 * seconds), "read": scaled(bandwidth["read"], 1e9 * seconds),
             "write": scaled(bandwidth["write"], 1e9 * seconds), "loads": scaled(summary["loads"], 1),
             "stores": scaled(summary["stores"], 1), "flops": scaled(summary["flops"], 1e9 * seconds)}
    levels = {level: scaled(summary["levels"].get(level), 1) for level in LEVELS}
    bound = scaled(summary["memory_bound"], 1)
    return {**found, "levels": {level: share[0] for level, share in levels.items() if share},
            "class": classification(summary), "memory_bound": bound and bound[0]}


def under_fathom(command, options):
    """(what the program states, the summary) of one run."""
    with common.scratch() as folder:
        result = os.path.join(folder, "result")
        knobs = [word for knob in options.knob for word in ("-k", knob)]
        output = common.run([options.fathom, "run", "-q", *knobs, "-r", result, "--", *command])
        summary = common.run([options.fathom, "report", "summary", "--format", "json", "-r", result])
    return last_line(output), json.loads(summary)


def measure(program, threads, options, simulated):
    """All runs of one row: {truth, estimates[], plain[], under[]}."""
    repeat = max(1, program.repeat // 8) if options.quick else program.repeat
    command, row = program.start(repeat, threads), {"estimates": [], "plain": [], "under": []}
    for number in range(1 if options.quick else options.runs):
        order = ["plain", "under"]
        random.Random(f"{program.name}/{threads}/{number}").shuffle(order)
        for who in order:
            if who == "plain":
                stated = last_line(common.run(command))
            else:
                stated, summary = under_fathom(command, options)
                row["estimates"].append(estimates_of(summary))
            row[who].append(stated["seconds"])
    row["truth"] = truth_of(program, threads, stated, simulated)
    return row


def holds(found, truth, quantity):
    _, low, high = found
    return low - SLACK[quantity] <= truth <= high + SLACK[quantity]


def error_and_cover(row, quantity):
    """'+3.1 % (4/5)': error of the median estimate in percent, and how many intervals hold the truth."""
    truth = row["truth"][quantity]
    found = [run[quantity] for run in row["estimates"] if run[quantity]]
    if truth is None or not found:
        return "n/a"
    median = statistics.median(value for value, _, _ in found)
    covered = sum(holds(run, truth, quantity) for run in found)
    if truth == 0:
        return f"{median:.3g} for 0 ({covered}/{len(found)})"
    return f"{100 * (median / truth - 1):+.1f} % ({covered}/{len(found)})"


def level_error(row):
    """The largest error of a level's share, in points, with its level."""
    errors = []
    for level in LEVELS:
        truth = row["truth"]["levels"][level]
        found = [run["levels"][level] for run in row["estimates"] if level in run["levels"]]
        if truth is not None and found:
            errors.append((statistics.median(found) - truth, level))
    if not errors:
        return "n/a"
    worst = max(errors, key=lambda error: abs(error[0]))
    return f"{worst[0]:+.1f} {worst[1]}"


def gigabytes(bytes_or_none):
    return "n/a" if bytes_or_none is None else f"{bytes_or_none * 1e-9:.2f}"


def as_row(program, threads, row):
    """The cells of one line of the table."""
    truth = row["truth"]
    within = f" ({gigabytes(truth['range'][0])}..{gigabytes(truth['range'][1])})" if truth["range"] else ""
    found = [run["dram"][0] for run in row["estimates"] if run["dram"]]
    bounds = [run["memory_bound"] for run in row["estimates"] if run["memory_bound"] is not None]
    classes = [run["class"] for run in row["estimates"]]
    right = sum(label in program.classes for label in classes)
    ratio = statistics.median(under / plain for under, plain in zip(row["under"], row["plain"]))
    return [program.name, str(threads), truth["by"], gigabytes(truth["read"]), gigabytes(truth["write"]),
            gigabytes(truth["dram"]) + within, gigabytes(statistics.median(found)) if found else "n/a",
            *(error_and_cover(row, quantity) for quantity in QUANTITIES), level_error(row),
            f"{statistics.median(bounds):.0f} %" if bounds else "n/a", " or ".join(program.classes),
            f"{statistics.mode(classes)} ({right}/{len(classes)})", f"{statistics.median(row['plain']):.2f} s", f"{ratio:.3f}"]


HEADS = ["program", "threads", "truth by", "read GB", "written GB", "DRAM GB (L3 half..double)", "estimated GB",
         *QUANTITIES, "worst level, points", "memory bound", "class", "found", "alone", "under / alone"]


def aligned(lines):
    """A markdown table whose columns stand under each other."""
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    padded = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths)) + " |" for line in lines]
    return [padded[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *padded[1:]]


def totals(rows):
    """One sentence per quantity: how many rows have an estimate, median absolute error, coverage of all runs."""
    lines = []
    for quantity in QUANTITIES:
        errors, covered, runs, given = [], 0, 0, 0
        for row in rows:
            truth = row["truth"][quantity]
            found = [run[quantity] for run in row["estimates"] if run[quantity]]
            if truth is None or not found:
                continue
            given += 1
            covered, runs = covered + sum(holds(run, truth, quantity) for run in found), runs + len(found)
            if truth:
                errors.append(abs(100 * (statistics.median(value for value, _, _ in found) / truth - 1)))
        if not runs:
            lines.append(f"- {quantity}: n/a in all {len(rows)} rows")
            continue
        off = f"median absolute error {statistics.median(errors):.1f} %, largest {max(errors):.1f} %; " if errors else ""
        lines.append(f"- {quantity}: {given} of {len(rows)} rows have an estimate; {off}"
                     f"{covered} of {runs} intervals hold the truth")
    return lines


def prepare(options):
    subprocess.run(["make", "-s", "-C", "bench/truth"], cwd=common.ROOT, check=True)
    if not options.fathom:
        subprocess.run(["cargo", "build", "--release", "-q", "-p", "fathom"], cwd=common.ROOT, check=True)
        options.fathom = common.FATHOM
    # Calibrates a machine that was not yet, so that no measured run does.
    common.run([options.fathom, "machine", "--format", "json"])


def main():
    options = arguments()
    selected = list(chosen(options))
    prepare(options)
    simulated, stolen_before = programs.simulated(), common.steal_and_load()[0]
    lines, rows = [HEADS], []
    for program, threads in selected:
        rows.append(measure(program, threads, options, simulated))
        lines.append(as_row(program, threads, rows[-1]))
        print(" | ".join(lines[-1]), flush=True)
    counts = "one pair of runs each, an eighth as long" if options.quick else f"{options.runs} alternating pairs of runs each"
    stolen = common.steal_and_load()[0] - stolen_before
    text = ["# Estimates against known truth", "", common.machine(), "",
            f"{len(rows)} rows, {counts}; load average at the end {os.getloadavg()[1]:.1f}, {stolen:.1f} s of CPU stolen by the "
            f"hypervisor. Caches of the simulated truths (bytes,ways): {simulated['caches']}.", "",
            "Of each quantity: error of the median estimate, and in brackets the runs whose interval holds the truth.", "",
            *totals(rows), "", *aligned(lines)]
    print("\n" + "\n".join(text))
    if options.store:
        common.store("truth", "\n".join(text) + "\n")


if __name__ == "__main__":
    main()
