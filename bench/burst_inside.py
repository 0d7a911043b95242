#!/usr/bin/env python3
"""What an access costs inside of bursts: nanoseconds per recorded access, beside the same loop's own without fathom.

Each round records a program and runs it alone, in turn. Inside: CPU time of all bursts over the accesses that their
records describe, both from `fathom report accesses --format json`. Alone: the program's own time over its own count of
accesses, where it knows it, else its whole time over accesses that valgrind's lackey counted in two small runs and that
grow in proportion to the program's work (rounds, or calls of fib); the ratio of the two is the slow-down inside of
bursts. Streams count as the accesses of their vectors: their ratio says little, `burst_cost.py` says more.
"""
import json
import os
import re
import statistics
import subprocess
import sys
import time

import common

PROGRAMS = {
    # name: (command, it prints accesses= and loop_seconds=)
    "chase 256 MB": ([f"{common.PROGRAMS}/access_patterns", "--chase", "6"], True),
    "L1 loop": ([f"{common.PROGRAMS}/access_patterns", "--hits", "6000000"], True),
    "triad, 1 thread": ([f"{common.RECIPES}/stream", "--elements", "20000000", "--repeat", "40", "--threads", "1"], False),
    "multiply1": ([f"{common.RECIPES}/multiply1", "--size", "1024", "--threads", "1"], False),
    "multiply2": ([f"{common.RECIPES}/multiply2", "--size", "2048", "--threads", "1"], False),
    "fib": ([f"{common.PROGRAMS}/fib", "--n", "43"], ("16", "20")),
    "qsort": ([f"{common.PROGRAMS}/sort_calls", "--rounds", "100"], ("1", "2")),
    "exceptions, map": ([f"{common.PROGRAMS}/exceptions_map", "--rounds", "80000"], ("20", "60")),
}


def work(command):
    """Units of work of a run: its last argument, or for fib the number of calls."""
    number = int(command[-1])
    if "fib" not in command[0]:
        return number
    before, now = 0, 1
    for _ in range(number):
        before, now = now, before + now
    return 2 * now - 1


def lackey(command):
    """Loads and stores of a run, as valgrind's lackey counts them."""
    run = subprocess.run(["valgrind", "--tool=lackey", "--detailed-counts=yes", *command],
                         capture_output=True, text=True, check=True)
    rows = re.findall(r"== +[IFVD]\d+ +([\d,]+) +([\d,]+) +[\d,]+", run.stderr)
    return sum(int(number.replace(",", "")) for row in rows for number in row)


def accesses_alone(command, small):
    """Accesses of the whole run, in proportion to those of two small ones."""
    runs = [[*command[:-1], size] for size in small]
    counts, units = [lackey(run) for run in runs], [work(run) for run in runs]
    return (counts[1] - counts[0]) / (units[1] - units[0]) * work(command)

# How the summary's `coverage` names what is read here.
FIELDS = {"bursts": "bursts", "records": "records", "cpu_seconds": "cpu_time"}


def inside(result):
    """{what: number} over all bursts of a result."""
    def report(view):
        return json.loads(common.run([common.FATHOM, "report", view, "-r", result, "--format", "json"]))
    coverage = report("summary")["coverage"]
    missing = [key for key in FIELDS.values() if coverage[key]["value"] is None]
    if missing:
        sys.exit(f"the summary tells no {', '.join(missing)} of its bursts")
    found = {what: coverage[key]["value"] for what, key in FIELDS.items()}
    return {**found, "accesses": report("accesses")["total"]["accesses"]["value"]}


def measure(command, knows, rounds):
    """(ns per access in bursts, ns per access alone or [], accesses per record, bursts) of all rounds."""
    within, alone, dense, bursts = [], [], [], []
    accesses = accesses_alone(command, knows) if isinstance(knows, tuple) else None
    for number in range(rounds):
        for who in sorted(("alone", "fathom"), reverse=number % 2 == 1):
            if who == "alone":
                if accesses:
                    began = time.monotonic()
                    common.run(command)
                    alone.append(1e9 * (time.monotonic() - began) / accesses)
                elif knows:
                    text = common.run(command)
                    alone.append(1e9 * common.value(text, "loop_seconds") / common.value(text, "accesses"))
                continue
            with common.scratch() as folder:
                result = os.path.join(folder, "result")
                common.run([common.FATHOM, "collect", "memory-access", "-q", "-k", "dram-bandwidth-limits=false", "-r", result, "--", *command])
                found = inside(result)
            within.append(1e9 * found["cpu_seconds"] / found["accesses"])
            dense.append(found["accesses"] / found["records"])
            bursts.append(found["bursts"])
    return within, alone, dense, bursts


def main():
    options = common.arguments()
    common.prepare()
    rows, stolen_before = [], common.steal_and_load()[0]
    for name, (command, knows) in PROGRAMS.items():
        within, alone, dense, bursts = measure(command, knows, options.rounds)
        low, high = common.interval(within)
        row = [name, f"{statistics.median(bursts):.0f}", f"{statistics.median(dense):.1f}",
               f"{statistics.median(within):.2f} ({low:.2f}..{high:.2f})"]
        if knows:
            ratios = [a / b for a, b in zip(within, alone)]
            low, high = common.interval(ratios)
            row += [f"{statistics.median(alone):.2f}", f"{statistics.median(ratios):.2f} ({low:.2f}..{high:.2f})"]
        else:
            row += ["", ""]
        rows.append(row)
        print(" | ".join(row), flush=True)
    text = ["# Cost of an access inside of bursts", "", common.machine(), "",
            f"{options.rounds} rounds, medians and 95 % bootstrap intervals; "
            f"{common.steal_and_load()[0] - stolen_before:.1f} s of CPU stolen by the hypervisor meanwhile.", "",
            "| program | bursts | accesses per record | ns per access in bursts | alone | ratio |", "|---|---|---|---|---|---|"]
    text += ["| " + " | ".join(row) + " |" for row in rows]
    print("\n".join(text))
    if options.store:
        common.store("burst-inside", "\n".join(text) + "\n")


if __name__ == "__main__":
    main()
