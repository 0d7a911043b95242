#!/usr/bin/env python3
"""What following every switch of a thread costs, beside `perf sched record` in the same rounds.

A pair of threads on one CPU hands a byte to and fro as fast as it can (tests/programs/switch_storm). The figure is the
time that one switch takes longer than natively; from it follows the cost at 200,000 switches a second. Beside it: CPU time
of the collector, and bytes kept.
"""
import json
import os
import random
import statistics

import common

ROUNDS_OF_PROGRAM = 400_000
RATE = 200_000


def size(path):
    if os.path.isfile(path):
        return os.path.getsize(path)
    return sum(os.path.getsize(os.path.join(path, name)) for name in os.listdir(path))


def main():
    options = common.arguments()
    common.prepare()
    command = [f"{common.PROGRAMS}/switch_storm", "--rounds", str(ROUNDS_OF_PROGRAM)]
    times = {"native": [], "fathom": [], "perf sched": []}
    own, kept = [], {"fathom": [], "perf sched": []}
    stolen_before = common.steal_and_load()[0]
    for round_number in range(options.rounds):
        order = list(times)
        random.Random(round_number).shuffle(order)
        for who in order:
            with common.scratch() as folder:
                result = os.path.join(folder, "result")
                output = common.run({
                    "native": command,
                    "fathom": [common.FATHOM, "collect", "threading", "-q", "-k", "dram-bandwidth-limits=false",
                               "-r", result, "--", *command],
                    "perf sched": ["perf", "sched", "record", "-o", result, "--", *command],
                }[who])
                switches = common.value(output, "switches")
                times[who].append(common.value(output, "elapsed_ns") / switches)
                if who != "native":
                    kept[who].append(size(result) / switches)
                if who == "fathom":
                    manifest = json.load(open(os.path.join(result, "run.json")))
                    own.append(manifest["own_cost"]["cpu_time_ns"] / switches)
    text = ["# Cost of following every switch of a thread", "", common.machine(), "",
            f"{options.rounds} rounds in changing order, median and 95 % bootstrap interval of differences within a round; "
            f"{common.steal_and_load()[0] - stolen_before:.1f} s of CPU stolen by the hypervisor meanwhile. "
            f"Natively a switch takes {statistics.median(times['native']):.0f} ns: "
            f"{1e9 / statistics.median(times['native']):,.0f} switches a second.", "",
            f"| who | longer per switch, ns | at {RATE:,} switches a second, share of one CPU | bytes kept per switch |",
            "|---|---|---|---|"]
    for who in ("fathom", "perf sched"):
        longer = [a - b for a, b in zip(times[who], times["native"])]
        low, high = common.interval(longer)
        text.append(f"| {who} | {statistics.median(longer):.0f} ({low:.0f}..{high:.0f}) | "
                    f"{statistics.median(longer) * RATE / 1e7:.1f} % | {statistics.median(kept[who]):.2f} |")
    text += ["", f"Fathom's own process used {statistics.median(own):.0f} ns of CPU time per switch, which is "
                 f"{statistics.median(own) * RATE / 1e7:.1f} % of a CPU at {RATE:,} switches a second."]
    print("\n".join(text))
    if options.store:
        common.store("threading-cost", "\n".join(text) + "\n")


if __name__ == "__main__":
    main()
