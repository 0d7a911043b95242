#!/usr/bin/env python3
"""Stall time by object against programs with one known culprit each (bench/stalls/culprits.c).

    bench/stalls.py [--rounds N] [--seconds S] [--only TEXT] [--store]

Of each program, by the rows of all its own functions but main (which fills the arrays) in `fathom report objects -g object,function`:
* named: of the time that stands behind accesses the share whose object is known; goal 90 %
* right: of that the share of the objects that the loop uses; goal 98 %
* share: how far the share of an object is from that of the loops' own clock, points; goal 3 (two arrays in known proportion)
The program's stack (variables at -O0) is no culprit: it counts as wrong.
"""
import argparse
import json
import os
import re
import statistics
import subprocess

import common

SOURCE = os.path.join(common.ROOT, "bench", "stalls", "culprits.c")
KINDS = ["load", "load-op", "floating", "strided", "branch", "store", "update", "atomic", "search", "chase", "hash", "vector",
         "false-sharing", "two-load", "two-update", "two-floating"]
# Compiler, flags, kinds.
BUILDS = [("gcc", "-O2", KINDS), ("clang", "-O2", KINDS), ("gcc", "-O2 -mavx2", ["gather", "vector"]),
          ("clang", "-O2 -mavx2", ["gather"]), ("gcc", "-O0", ["load", "chase", "two-load", "atomic", "hash"]),
          ("clang", "-O1", ["load", "two-update", "search"]), ("gcc", "-O3", ["strided", "hash", "two-load"]),
          ("clang", "-O3", ["floating", "search", "two-floating"])]


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--knob", action="append", default=[])
    parser.add_argument("--store", action="store_true", help="keep the result in bench/results")
    return parser.parse_args()


def built(folder, compiler, flags):
    """The program, or nothing where the compiler or the processor cannot."""
    path = os.path.join(folder, f"{compiler}{flags.replace(' ', '')}")
    if "-mavx2" in flags and "avx2" not in open("/proc/cpuinfo").read():
        return None
    if not os.path.exists(path):
        done = subprocess.run([compiler, *flags.split(), "-g", "-pthread", SOURCE, "-o", path], capture_output=True, check=False)
        if done.returncode != 0:
            return None
    return path


def measure(folder, program, kind, seconds, knobs):
    """The truth, and the rows of the loop's function: {object: seconds}, seconds of no known object, samples."""
    result = os.path.join(folder, "result")
    subprocess.run(["rm", "-rf", result], check=True)
    knobs = [word for knob in knobs for word in ("-k", knob)]
    out = common.run([common.FATHOM, "collect", "memory-access", "-q", *knobs, "-r", result, "--", program, kind, str(seconds)])
    truth = {}
    for objects, share in re.findall(r"^object=(\S+) share=([\d.]+)", out, re.M):
        truth[objects] = float(share)
    view = json.loads(common.run([common.FATHOM, "report", "objects", "-g", "object,function", "-r", result, "--format", "json"]))
    rows, samples = {}, 0
    for row in view["rows"]:
        # What is inlined into the loop has a name of its own; main only fills the arrays.
        if row["function"] != "main" and row["module"] == os.path.basename(program):
            rows[row["object"]] = rows.get(row["object"], 0) + (row["stall_time"]["value"] or 0)
            samples += row["stall_time"]["samples"]
    total = view["total"].get("stall_time")
    every = sum(row["stall_time"]["value"] or 0 for row in view["rows"])
    lost = max(0.0, total["value"] - every) if total else 0.0
    return truth, rows, lost, samples


def judge(truth, rows, lost):
    """named, right, points off."""
    found = sum(rows.values())
    if found == 0:
        return 0.0, None, None
    wanted = {name for names in truth for name in names.split(",")}
    right = sum(seconds for name, seconds in rows.items() if name in wanted)
    off = None
    if len(truth) > 1 and right > 0:
        off = max(abs(rows.get(name, 0) / right - share) * 100 for name, share in truth.items())
    return found / (found + lost) * 100, right / found * 100, off


def main():
    options = arguments()
    lines, all_named, all_right, all_off = [], [], [], []
    with common.scratch() as folder:
        for compiler, flags, kinds in BUILDS:
            program = built(folder, compiler, flags)
            for kind in (kind for kind in kinds if options.only in f"{compiler} {flags} {kind}"):
                if program is None:
                    lines.append(f"| {kind} | {compiler} {flags} | not built here | | | |")
                    continue
                runs = [measure(folder, program, kind, options.seconds, options.knob) for _ in range(options.rounds)]
                judged = [judge(truth, rows, lost) for truth, rows, lost, _ in runs]
                named = statistics.median(one[0] for one in judged)
                right = [one[1] for one in judged if one[1] is not None]
                right = statistics.median(right) if right else None
                off = [one[2] for one in judged if one[2] is not None]
                off = statistics.median(off) if off else None
                all_named.append(named)
                all_right += [] if right is None else [right]
                all_off += [] if off is None else [off]
                missed = [word for word, bad in (("named", named < 90), ("right", right is None or right < 98),
                                                 ("share", off is not None and off > 3)) if bad]
                shown = (f"| {kind} | {compiler} {flags} | {runs[0][3]} | {named:.1f} % | "
                         f"{'n/a' if right is None else f'{right:.1f} %'} | {'' if off is None else f'{off:.1f}'} | "
                         f"{', '.join(missed) or 'met'} |")
                print(shown, flush=True)
                if missed:
                    print("   ", runs[0][0], {name: round(value, 3) for name, value in runs[0][1].items() if value >= 0.0005}, "lost", round(runs[0][2], 3))
                lines.append(shown)
    met = sum("| met |" in line for line in lines)
    summary = (f"{met} of {len(lines)} programs meet all goals. Named: lowest {min(all_named):.1f} %, median "
               f"{statistics.median(all_named):.1f} %. Right: lowest {min(all_right):.1f} %, median {statistics.median(all_right):.1f} %."
               + (f" Shares: at most {max(all_off):.1f} points off." if all_off else ""))
    print(summary)
    if options.store:
        head = (f"# Stall time by object\n\n{common.machine()}\n\n`bench/stalls.py --rounds {options.rounds} --seconds "
                f"{options.seconds:g}`. What the columns are stands at the head of the script. Goals: named 90 %, right 98 %, share 3 points."
                f"\n\n{summary}\n\n| culprit | built by | samples | named | right | share off, points | goals |\n|---|---|---|---|---|---|---|\n")
        common.store("stalls", head + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
