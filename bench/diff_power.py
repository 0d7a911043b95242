#!/usr/bin/env python3
"""How often `fathom diff` calls a change where there is none, and finds one of 3 %.

A/A: pairs of two sets of repeated runs of one short program, recorded in turn; an alarm is any figure, of the whole run
or of a function, that is called more or less; and, apart, the elapsed time alone. Power: a program of about 2 s against
itself with 3 % more work, 20 runs in all, recorded in turn; found is an elapsed time called more, and, apart, a CPU time.
"""
import argparse
import json
import os
import random
import tempfile

import common

PROGRAM = [os.path.join(common.PROGRAMS, "sort_calls"), "--rounds"]


def collect(fathom, folder, name, rounds):
    result = os.path.join(folder, name)
    common.run([fathom, "collect", "hotspots", "-q", "-k", "dram-bandwidth-limits=false", "-r", result, "--",
                *PROGRAM, str(rounds)])
    return result


def record(fathom, folder, runs, base_rounds, new_rounds):
    """Two sides of `runs` results each, in turn; which goes first changes at random."""
    sides = ([], [])
    for run in range(runs):
        for side in random.sample((0, 1), 2):
            rounds = (base_rounds, new_rounds)[side]
            sides[side].append(collect(fathom, folder, f"{'ab'[side]}{run}", rounds))
    return sides


def changed(fathom, sides):
    """Names of the figures and functions that are called changed, and the spread of elapsed times of one side."""
    text = common.run([fathom, "diff", "--base", *sides[0], "--new", *sides[1], "--format", "json"])
    found = json.loads(text)
    rows = [(row["metric"], row) for row in found["totals"]["rows"]]
    rows += [(row["function"], row) for row in found["table"]["rows"]]
    elapsed = found["totals"]["rows"][0]
    half = (elapsed["change"]["high"] or 0) - (elapsed["change"]["low"] or 0)
    return [name for name, row in rows if row["verdict"] in ("more", "less")], elapsed["change"]["value"], half / 2


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--fathom", type=os.path.abspath, default=common.FATHOM)
    options.add_argument("--pairs", type=int, default=100)
    options.add_argument("--runs", type=int, default=5, help="runs a side of an A/A pair")
    options.add_argument("--trials", type=int, default=10, help="comparisons with a true change")
    options.add_argument("--short", type=int, default=4, help="rounds of the short program")
    options.add_argument("--long", type=int, default=66, help="rounds of the program of 2 s")
    options.add_argument("--store", action="store_true", help="write bench/results/diff.md")
    options = options.parse_args()
    if options.fathom == common.FATHOM:
        common.prepare()
    random.seed(1)
    stolen_before, busy_before = common.steal_and_load()
    alarms, elapsed_alarms, names = 0, 0, []
    for pair in range(options.pairs):
        with tempfile.TemporaryDirectory() as folder:
            sides = record(options.fathom, folder, options.runs, options.short, options.short)
            found, _, _ = changed(options.fathom, sides)
        alarms += bool(found)
        elapsed_alarms += "elapsed" in found
        names += found
        print(f"A/A {pair + 1}: {alarms} alarms {found}", flush=True)
    found_elapsed, found_cpu, changes = 0, 0, []
    for trial in range(options.trials):
        with tempfile.TemporaryDirectory() as folder:
            sides = record(options.fathom, folder, 10, options.long, round(options.long * 1.03))
            found, change, half = changed(options.fathom, sides)
        found_elapsed += "elapsed" in found
        found_cpu += "cpu_time" in found
        changes.append(f"{change:+.1f} ± {half:.1f}")
        print(f"3 %: trial {trial + 1}: {changes[-1]} {found}", flush=True)
    stolen, busy = (after - before for after, before in
                    zip(common.steal_and_load(), (stolen_before, busy_before)))
    text = ["# False alarms and power of `fathom diff`", "", common.machine(), "",
            f"`sort_calls` under `collect hotspots`, the sides recorded in turn; {busy:.0f} s of CPU used and {stolen:.1f} s "
            f"stolen on the machine meanwhile, its load average {os.getloadavg()[2]:.1f} at the end.", "",
            "| what | result |", "|---|---|",
            f"| A/A pairs, {options.runs} against {options.runs} runs | {options.pairs} |",
            f"| pairs in which anything at all was called changed | {alarms} |",
            f"| pairs in which the elapsed time was | {elapsed_alarms} |",
            f"| what was called changed | {', '.join(sorted(set(names))) or 'nothing'} |",
            f"| comparisons of 10 with 10 runs and 3 % more work | {options.trials} |",
            f"| elapsed time found to be more | {found_elapsed} |",
            f"| CPU time found to be more | {found_cpu} |",
            f"| change of the elapsed time with half its interval, % | {'; '.join(changes) or 'not run'} |"]
    print("\n".join(text))
    if options.store:
        common.store("diff", "\n".join(text) + "\n")


if __name__ == "__main__":
    main()
