#!/usr/bin/env python3
"""What sampling at 1 kHz costs the program, beside `perf record -F 1000 -g` (frame pointers) in the same rounds.

Each round runs every program natively, under fathom and under perf, in an order that changes from round to round. The
time is the program's own (its loop, CLOCK_MONOTONIC). Ratios are taken within a round; median and 95 % bootstrap
interval over the rounds. Beside it stands what is exact: CPU time of the collector as a share of elapsed time.
"""
import json
import os
import random
import statistics

import common

PROGRAMS = {
    # name: (command, key of its own time, threads)
    "triad, 1 thread": ([f"{common.RECIPES}/stream", "--elements", "20000000", "--repeat", "40", "--threads", "1"], "loop_seconds"),
    "triad, 2 threads": ([f"{common.RECIPES}/stream", "--elements", "20000000", "--repeat", "60", "--threads", "2"], "loop_seconds"),
    "matrix (multiply2), 2 threads": ([f"{common.RECIPES}/multiply2", "--size", "2048", "--threads", "2"], "loop_seconds"),
    "fib": ([f"{common.PROGRAMS}/fib", "--n", "44"], "process_cpu_ns"),
}


def main():
    options = common.arguments()
    common.prepare()
    rows, stolen_before = [], common.steal_and_load()[0]
    for name, (command, key) in PROGRAMS.items():
        times = {"native": [], "fathom": [], "perf": []}
        own = []
        for round_number in range(options.rounds):
            order = list(times)
            random.Random(round_number).shuffle(order)
            for who in order:
                with common.scratch() as folder:
                    result = os.path.join(folder, "result")
                    wrapped = {
                        "native": command,
                        "fathom": [common.FATHOM, "collect", "hotspots", "-q", "-k", "dram-bandwidth-limits=false",
                                   "-r", result, "--", *command],
                        "perf": ["perf", "record", "-q", "-F", "1000", "-g", "-o", os.path.join(folder, "perf.data"), "--", *command],
                    }[who]
                    times[who].append(common.value(common.run(wrapped), key))
                    if who == "fathom":
                        manifest = json.load(open(os.path.join(result, "run.json")))
                        own.append(100 * manifest["own_cost"]["cpu_time_ns"] / manifest["elapsed_ns"])
        row = [name, f"{statistics.median(times['native']) * (1e-9 if key.endswith('_ns') else 1):.2f} s"]
        for who in ("fathom", "perf"):
            ratios = [a / b for a, b in zip(times[who], times["native"])]
            low, high = common.interval(ratios)
            row.append(f"{statistics.median(ratios):.3f} ({low:.3f}..{high:.3f})")
        ratios = [a / b for a, b in zip(times["fathom"], times["perf"])]
        low, high = common.interval(ratios)
        row.append(f"{statistics.median(ratios):.3f} ({low:.3f}..{high:.3f})")
        row.append(f"{statistics.median(own):.2f} %")
        rows.append(row)
        print(" | ".join(row), flush=True)
    text = ["# Sampling overhead at 1 kHz", "", common.machine(), "",
            f"{options.rounds} rounds, median and 95 % bootstrap interval of the ratios within a round; "
            f"{common.steal_and_load()[0] - stolen_before:.1f} s of CPU stolen by the hypervisor meanwhile.", "",
            "| program | native | fathom / native | perf -g / native | fathom / perf | collector's CPU, share of elapsed |",
            "|---|---|---|---|---|---|"]
    text += ["| " + " | ".join(row) + " |" for row in rows]
    print("\n".join(text))
    if options.store:
        common.store("sampling-overhead", "\n".join(text) + "\n")


if __name__ == "__main__":
    main()
