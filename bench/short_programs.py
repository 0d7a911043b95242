#!/usr/bin/env python3
"""What a short program pays: how much later it ends under fathom, and its longest stand-still seen from inside.

Programs of milliseconds to a second run alone and under `fathom collect memory-access`, in an order that changes from round
to round. "Ends" is from the start of our command to the program's last moment (it writes to a pipe that closes with it); the
program's own part of it is the result's `elapsed`. What fathom does behind the program's end is not the program's harm, and
stands apart as "command". The program is `tests/programs/stand_still` with a fixed number of readings of the clock: it knows
its gaps. What the machine itself keeps it from is in the column of the runs alone.
"""
import json
import os
import random
import statistics
import subprocess
import sys
import time

import common

STAND_STILL = f"{common.PROGRAMS}/stand_still"
KNOBS = ["-q", "-k", "dram-bandwidth-limits=false"]
LENGTHS = (0.05, 0.1, 0.2, 0.5, 1.0)


def programs():
    """{name: command}, with so many readings as take about a length of time here."""
    count = 20000
    began = time.monotonic()
    subprocess.run([STAND_STILL, "--thousands", str(count)], check=True, stdout=subprocess.DEVNULL)
    per_second = count / (time.monotonic() - began)
    found = {"true": ["true"], "ls": ["ls", "-la", "/usr/bin"]}
    found |= {f"{length} s": [STAND_STILL, "--thousands", str(int(per_second * length))] for length in LENGTHS}
    return found


def timed(command):
    """(until the program's output closed, until the command ended, the output), seconds."""
    began = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    output = process.stdout.read()
    closed = time.monotonic() - began
    if process.wait() != 0:
        sys.exit(f"{' '.join(command)} failed")
    return closed, time.monotonic() - began, output.decode(errors="replace")


def once(command, under):
    """Figures of one run, milliseconds."""
    with common.scratch() as folder:
        result = os.path.join(folder, "result")
        prefix = [common.FATHOM, "collect", "memory-access", *KNOBS, "-r", result, "--"] if under else []
        _, whole, output = timed(prefix + command)
        found = {"command": whole * 1e3}
        if under:
            text = common.run([common.FATHOM, "report", "summary", "-r", result, "--format", "json"])
            summary = json.loads(text)
            parts = summary["overhead_parts"]
            found["program"] = summary["elapsed"]["value"] * 1e3
            found["before"] = json.load(open(f"{result}/run.json"))["own_cost"]["startup_ns"] / 1e6
            found["said"] = (parts["stand_still"]["value"] or 0) * 1e3
            found["bursts"] = summary["coverage"]["bursts"]["value"] or 0
        else:
            found["program"] = whole * 1e3
    if "max_us=" in output:
        found["longest"] = common.value(output, "max_us") / 1e3
        found["stood"] = common.value(output, "stood_still_us") / 1e3
    return found


def main():
    options = common.arguments()
    common.prepare()
    rows = []
    for name, command in programs().items():
        runs = {False: [], True: []}
        for number in range(options.rounds):
            order = [False, True]
            random.Random(f"{name}/{number}").shuffle(order)
            for under in order:
                runs[under].append(once(command, under))
        middle = {under: {key: statistics.median(run[key] for run in found) for key in found[0]}
                  for under, found in runs.items()}
        worst = {under: max((run["longest"] for run in found if "longest" in run), default=0) for under, found in runs.items()}
        alone, under = middle[False], middle[True]
        later = [b["program"] - a["program"] for a, b in zip(*runs.values())]
        low, high = common.interval(later)
        gaps = "" if "longest" not in alone else (
            f"{alone['longest']:.2f} (worst {worst[False]:.2f}) | {under['longest']:.2f} (worst {worst[True]:.2f}) | "
            f"{under['stood'] - alone['stood']:.2f}")
        rows.append(f"| {name} | {alone['program']:.1f} | {statistics.median(later):+.2f} ({low:+.2f}..{high:+.2f}) | "
                    f"{gaps or '| |'} | {under['said']:.2f} | {under['bursts']:.0f} | {under['before']:.1f} | "
                    f"{under['command'] - under['program'] - under['before']:.0f} |")
        print(rows[-1], flush=True)
    text = ["# Short programs", "", common.machine(), "",
            f"{options.rounds} alternating pairs, medians, milliseconds; in parentheses a 95 % bootstrap interval, or the worst of all runs.", "",
            "| program | alone | ends later by | longest gap alone | under fathom | more in gaps | stand-still by fathom's account | "
            "bursts | before its start | after its end |", "|---|---|---|---|---|---|---|---|---|---|", *rows]
    print("\n".join(text))
    if options.store:
        common.store("short-programs", "\n".join(text) + "\n")


if __name__ == "__main__":
    main()
