#!/usr/bin/env python3
"""How much longer whole runs take under fathom, beside what fathom itself says that it costs.

As in burst_cost.py (whose runs these are): alternating pairs, the program's own time, ratios within a pair. The programs are
those that profilers slow down most: a page fault after the other, a build with a process for each file and step, exceptions,
calls, dependent loads, streams on one CPU and on two, and some of them half a second long. The goal: a median of at most
1.03 and an upper end of at most 1.06, and `overhead` within a point of the median.
"""
import os
import shutil
import sys

import burst_cost
import common

FILES = 24

BUILD = """
set -e
rm -rf "$1"; mkdir "$1"
for n in $(seq {files}); do cp {root}/recipes/stream.c "$1/s$n.c"; done
cp {root}/recipes/common.h "$1"
"""
PROGRAMS = {
    "fault storm": [f"{common.PROGRAMS}/touch_pages", "--pages", "100000", "--rounds", "10"],
    "triad, 1 thread": burst_cost.PROGRAMS["triad, 1 thread"][0],
    "triad, 2 threads": burst_cost.PROGRAMS["triad, 2 threads"][0],
    "chase 256 MB": burst_cost.PROGRAMS["chase 256 MB"][0],
    "L1 loop": burst_cost.PROGRAMS["L1 loop"][0],
    "fib": burst_cost.PROGRAMS["fib"][0],
    "exceptions, map": burst_cost.PROGRAMS["exceptions, map"][0],
    "qsort": burst_cost.PROGRAMS["qsort"][0],
    "2 threads on 2 CPUs": burst_cost.PROGRAMS["2 threads on 2 CPUs"][0],
    "triad, 0.5 s": [f"{common.RECIPES}/stream", "--elements", "10000000", "--repeat", "4", "--threads", "1"],
    "chase, 0.5 s": [f"{common.PROGRAMS}/access_patterns", "--chase", "1"],
    "fib, 0.5 s": [f"{common.PROGRAMS}/fib", "--n", "39"],
    "fault storm, 0.5 s": [f"{common.PROGRAMS}/touch_pages", "--pages", "100000", "--rounds", "2"],
}


def with_build(folder):
    """A build of two jobs whose files lie in the folder; each run makes all of them anew."""
    if shutil.which("make") is None or shutil.which("gcc") is None:
        return {}
    place = os.path.join(folder, "build")
    common.run(["sh", "-c", BUILD.format(files=FILES, root=common.ROOT), "sh", place])
    with open(os.path.join(place, "Makefile"), "w") as file:
        objects = " ".join(f"s{n}.o" for n in range(1, FILES + 1))
        file.write(f"all: {objects}\n%.o: %.c\n\tgcc -O1 -fopenmp -c $< -o $@\n")
    return {"make -j2 with gcc": ["make", "-s", "-B", "-j2", "-C", place]}


def main():
    options = common.arguments()
    rounds = 15 if "--rounds" not in sys.argv else options.rounds
    common.prepare()
    stolen, rows = common.steal_and_load()[0], []
    with common.scratch() as folder:
        for name, command in (PROGRAMS | with_build(folder)).items():
            burst_cost.PROGRAMS[name] = (command, None)
            rows.append(burst_cost.measure(name, rounds, folder)[:4])
            print(" | ".join(rows[-1]), flush=True)
    text = ["# Whole runs under fathom", "", common.machine(), "",
            f"{rounds} alternating pairs of `fathom collect memory-access`, median and 95 % bootstrap interval of the ratios "
            f"within a pair; {common.steal_and_load()[0] - stolen:.1f} s of CPU stolen by the hypervisor meanwhile.", "",
            "| program | alone | under fathom / alone | fathom's own `overhead` |", "|---|---|---|---|"]
    text += ["| " + " | ".join(row) + " |" for row in rows]
    print("\n".join(text))
    if options.store:
        common.store("whole-run", "\n".join(text) + "\n")


if __name__ == "__main__":
    main()
