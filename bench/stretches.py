#!/usr/bin/env python3
"""How many stretches the burst tracer records per CPU second at its default duty, and how long a thread stands still for one.

Each round records every program once. A stretch is a burst of any flavour; stand-still is the sum over all bursts over
their number. Goals: 100 stretches per CPU second, 60 microseconds.
"""
import json
import os
import statistics
import subprocess

import common

PROGRAMS = {
    "triad, 1 thread": [f"{common.RECIPES}/stream", "--elements", "20000000", "--repeat", "40", "--threads", "1"],
    "triad, 2 threads": [f"{common.RECIPES}/stream", "--elements", "20000000", "--repeat", "60", "--threads", "2"],
    "chase 256 MB": [f"{common.PROGRAMS}/access_patterns", "--chase", "6"],
    "fib": [f"{common.PROGRAMS}/fib", "--n", "44"],
    "exceptions, map": [f"{common.PROGRAMS}/exceptions_map", "--rounds", "30000"],
    "qsort, 0.5 s": [f"{common.PROGRAMS}/sort_calls", "--rounds", "50"],
}
KNOBS = ["-k", "dram-bandwidth-limits=false"]


def record(command):
    """Stretches per CPU second, stand-still per stretch (us), share of the CPU time in bursts (percent), overhead (percent)."""
    with common.scratch() as folder:
        result = os.path.join(folder, "result")
        subprocess.run([common.FATHOM, "collect", "memory-access", "-q", *KNOBS, "-r", result, "--", *command],
                       check=True, stdout=subprocess.DEVNULL)
        found = json.loads(common.run([common.FATHOM, "report", "summary", "-r", result, "--format", "json"]))
    stretches = found["coverage"]["stretches"]["value"] or 0
    cpu, parts = found["cpu_time"]["value"], found["overhead_parts"]
    return (stretches / cpu, parts["stand_still"]["value"] / max(stretches, 1) * 1e6,
            parts["burst_time"]["value"] / cpu * 100, found["overhead"]["value"])


def main():
    options = common.arguments()
    common.prepare()
    rows = {name: [] for name in PROGRAMS}
    for _ in range(options.rounds):
        for name, command in PROGRAMS.items():
            rows[name].append(record(command))
    text = ["# Stretches per CPU second", "", common.machine(), "",
            f"{options.rounds} rounds, medians (least..most). Default duty: 3 %.", "",
            "| program | stretches per CPU second | stand-still each, us | in bursts, % of CPU time | overhead that is reported, % |",
            "|---|---|---|---|---|"]
    for name, found in rows.items():
        cells = [f"{statistics.median(column):.4g} ({min(column):.3g}..{max(column):.3g})" for column in zip(*found)]
        text.append(f"| {name} | " + " | ".join(cells) + " |")
    print("\n".join(text))
    if options.store:
        common.store("stretches", "\n".join(text) + "\n")


if __name__ == "__main__":
    main()
