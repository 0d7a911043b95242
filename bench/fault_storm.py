#!/usr/bin/env python3
"""How much longer a program takes under each analysis that does nothing but touch fresh pages of 4 KiB.

Each round runs the program (some 330,000 faults a second, 1.5 s) natively and under every analysis, in an order that changes
from round to round. Ratios are taken within a round, of the loop's own time and of the CPU time of the program: the first
is what a user sees, the second matters where other programs share the CPUs. Beside them stands what fathom itself says that it
costs, and how many faults it tells, which must be as many as getrusage(2) has. The goal: at most 1.05.
"""
import json
import os
import random
import statistics
import sys

import common

ANALYSES = ["hotspots", "memory-access", "system-overview"]
STORM = [f"{common.PROGRAMS}/touch_pages", "--pages", "100000", "--rounds", "5"]
CLOCKS = ["loop_seconds", "process_cpu_ns"]


def once(who):
    """What the program tells, then of fathom: its `overhead` in percent, and faults told by faults that were."""
    with common.scratch() as folder:
        result = os.path.join(folder, "r")
        wrapped = STORM if who == "alone" else [common.FATHOM, "collect", who, "-q", "-k", "dram-bandwidth-limits=false",
                                                "-r", result, "--", *STORM]
        printed = common.run(wrapped)
        own = [common.value(printed, clock) for clock in CLOCKS]
        if who == "alone":
            return [*own, 0.0, 1.0]
        summary = json.loads(common.run([common.FATHOM, "report", "summary", "-r", result, "--format", "json"]))
        told = summary["page_faults"]["minor"]["value"] / common.value(printed, "process_minor_faults")
        return [*own, summary["overhead"]["value"], told]


def main():
    options = common.arguments()
    common.prepare()
    stolen, seen = common.steal_and_load()[0], {who: [] for who in ["alone", *ANALYSES]}
    for round_number in range(options.rounds):
        order = list(seen)
        random.Random(round_number).shuffle(order)
        for who in order:
            seen[who].append(once(who))
    seconds = statistics.median(run[0] for run in seen["alone"])
    faults = common.value(common.run(STORM), "touch_minor_faults")
    text = ["# Fault storm", "", common.machine(), "",
            f"{faults:,.0f} first touches of 4 KiB, alone {seconds:.2f} s ({faults / seconds:,.0f} a second). {options.rounds} alternating "
            f"rounds; median, 95 % bootstrap interval, and least and most of the ratios within a round; "
            f"{common.steal_and_load()[0] - stolen:.1f} s of CPU stolen by the hypervisor meanwhile.", "",
            "| analysis | time of the loop / alone | CPU time of the program / alone | fathom's own `overhead` | faults told / taken |",
            "|---|---|---|---|---|"]
    for who in ANALYSES:
        cells = []
        for clock in range(len(CLOCKS)):
            ratios = [under[clock] / alone[clock] for under, alone in zip(seen[who], seen["alone"])]
            low, high = common.interval(ratios)
            cells.append(f"{statistics.median(ratios):.3f} ({low:.3f}..{high:.3f}; {min(ratios):.2f} to {max(ratios):.2f})")
        overhead, told = (statistics.median(run[at] for run in seen[who]) for at in (2, 3))
        text.append(f"| {who} | {' | '.join(cells)} | {overhead:.1f} % | {told:.4f} |")
    print("\n".join(text))
    if options.store:
        common.store("fault-storm", "\n".join(text) + "\n")


if __name__ == "__main__":
    sys.exit(main())
