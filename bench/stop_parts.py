#!/usr/bin/env python3
"""Where the microseconds of a stop go: each step by which the burst tracer stops a thread and lets it go again.

A program of our own does what the tracer does (bench/stop_parts.c), from the CPU of the thread and from another one, with
a thread that counts in a register and one that walks 256 MiB at random, which leaves nothing of ours in the caches. The
four run in turn; figures are medians over the rounds of each round's median.
"""
import os
import statistics
import subprocess

import common

STOPS = "300"
MODES = [(where, what) for what in ("spin", "chase") for where in ("near", "far")]


def main():
    options = common.arguments()
    found = {mode: [] for mode in MODES}
    with common.scratch() as folder:
        program = os.path.join(folder, "stop_parts")
        source = os.path.join(common.ROOT, "bench", "stop_parts.c")
        subprocess.run(["gcc", "-O2", "-o", program, source], check=True)
        for number in range(options.rounds):
            for mode in sorted(MODES, reverse=number % 2 == 1):
                text = common.run([program, *mode, STOPS])
                found[mode].append({line.split("|")[0]: float(line.split("|")[1]) for line in text.splitlines()})
    heads = [f"{what}, {'same CPU' if where == 'near' else 'another CPU'}" for where, what in MODES]
    text = ["# Parts of a stop", "", common.machine(), "",
            f"{options.rounds} rounds of {STOPS} stops, one in 10 ms; microseconds, medians.", "",
            "| | " + " | ".join(heads) + " |", "|---|" + "---|" * len(MODES)]
    for part in found[MODES[0]][0]:
        row = [statistics.median(one[part] for one in found[mode]) for mode in MODES]
        text.append(f"| {part} | " + " | ".join(f"{value:.1f}" for value in row) + " |")
    print("\n".join(text))
    if options.store:
        common.store("stop-parts", "\n".join(text) + "\n")


if __name__ == "__main__":
    main()
