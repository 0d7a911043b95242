#!/usr/bin/env python3
"""The pace of loops by `fathom report pace` against the program's own count: bench/results/pace.md.

    bench/pace.py [--seconds 1] [--quick]

Without bursts: the program's own count includes what they cost, the native pace does not. Each program counts the iterations of one loop of its source and takes the CPU time around them, calls of the clock and the
few instructions between two runs of the loop included. Fathom counts iterations of the machine's loop; where the compiler
unrolled or vectorised, one of them is several of the source, and where it exchanged two loops, several of them are one of
the source. That factor is the integer nearest to truth over measured, or one over the integer nearest to the inverse: an
error is therefore told only as far as it is smaller than half of one iteration (column `each is`).
"""
import argparse
import json
import os
import statistics
import subprocess
import tempfile

import common

HERE = os.path.join(common.ROOT, "bench", "pace")
BUILDS = [
    ("gcc -O0", "loops.c"), ("gcc -O2", "loops.c"), ("gcc -O3 -mavx2", "loops.c"), ("gcc -Ofast -march=native", "loops.c"),
    ("clang -O0", "loops.c"), ("clang -O2", "loops.c"), ("clang -O3 -mavx2", "loops.c"),
    ("gfortran -O0", "loops.f90"), ("gfortran -O2 -fno-inline", "loops.f90"), ("gfortran -O3 -fno-inline", "loops.f90"),
]
C = ["scale", "dot", "triad", "cached", "histogram", "gather", "field", "backwards", "pointers", "bytes", "stencil", "nest",
     "columns", "chase", "search"]
# How deep the counted loop lies in its function.
DEPTH = {"nest": 1}


def measure(program, kernel, seconds, threads):
    """(true iterations per CPU second, the row of the counted loop or None)."""
    with tempfile.TemporaryDirectory(prefix="fathom-pace-") as directory:
        result = os.path.join(directory, "r")
        command = [common.FATHOM, "collect", "hotspots", "-q", "-r", result, "--", program, kernel, str(seconds)]
        text = common.run(command + ([str(threads)] if threads > 1 else []))
        report = json.loads(common.run([common.FATHOM, "report", "pace", "-r", result, "--format", "json"]))
    truth = common.value(text, "iterations") / common.value(text, "cpu")
    rows = [row for row in report["rows"] if row["function"].split("::")[-1].split(".")[0].rstrip("_").endswith(kernel)]
    # Vectorised loops have a rest behind them: the one with the most time counts.
    counted = [row for row in rows if row["depth"] == DEPTH.get(kernel, 0)] or rows
    return truth, counted[0] if counted else None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--quick", action="store_true", help="a few rows only, nothing stored")
    arguments = parser.parse_args()
    if "FATHOM" not in os.environ:
        subprocess.run(["cargo", "build", "--release", "-q", "-p", "fathom"], cwd=common.ROOT, check=True)
    lines, errors, halves, held, silent = [], [], [], 0, []
    with tempfile.TemporaryDirectory(prefix="fathom-pace-build-") as directory:
        for number, (build, source) in enumerate(BUILDS[:6:2] if arguments.quick else BUILDS):
            program = os.path.join(directory, f"loops{number}")
            compiled = subprocess.run([*build.split(), "-g", "-pthread", "-J", directory][:-2 if source.endswith(".c") else None]
                                      + ["-o", program, os.path.join(HERE, source)], capture_output=True, text=True)
            if compiled.returncode != 0:
                print(f"skipped: {build}: {compiled.stderr.splitlines()[0] if compiled.stderr else 'no compiler'}")
                continue
            kernels = [(kernel, 1) for kernel in (C if source.endswith(".c") else ["triad", "sums"])]
            if build in ("gcc -O2", "clang -O2"):
                kernels += [("triad", 2), ("search", 2)]
            for kernel, threads in kernels:
                truth, row = measure(program, kernel, arguments.seconds, threads)
                name = f"{kernel}, {threads} threads" if threads > 1 else kernel
                pace = row and row["iterations_per_second"]
                if not pace or pace["value"] is None:
                    why = pace["note"] if pace else "no row"
                    silent.append(f"{name}, {build}: {why}")
                    lines.append(f"| {name} | {build} | {truth:.4g} | n/a | | | | |")
                else:
                    each = round(truth / pace["value"]) or 1 / round(pace["value"] / truth)
                    error = 100 * (pace["value"] * each / truth - 1)
                    half = 50 * (pace["high"] - pace["low"]) / pace["value"]
                    errors.append(error)
                    halves.append(half)
                    inside = pace["low"] * each <= truth <= pace["high"] * each
                    held += inside
                    lines.append(f"| {name} | {build} | {truth:.4g} | {pace['value'] * each:.4g} | {error:+.2f} % | "
                                 f"{half:.2f} % | {each:.4g} | {row['odometer']} |")
                print(lines[-1], flush=True)
    within = sum(abs(error) <= 0.5 for error in errors)
    narrow = sum(half <= 1 for half in halves)
    text = f"""# The pace of loops against their own count

{common.machine()}

{arguments.seconds:g} s each, load average at the end {os.getloadavg()[0]:.1f}. Of {len(errors) + len(silent)} loops {len(errors)} have a pace.
Median error {statistics.median(errors):+.2f} %, median absolute {statistics.median(map(abs, errors)):.2f} %, largest {max(errors, key=abs):+.2f} %; {within} within 0.5 %.
Median half-width {statistics.median(halves):.2f} %; {narrow} of {len(halves)} at most 1 %. {held} of {len(errors)} intervals hold the truth.

| loop | build | true, /CPU s | by odometer | error | half-width | each is | by |
|---|---|---|---|---|---|---|---|
""" + "\n".join(lines) + "\n\nWithout a pace:\n\n" + "\n".join(f"- {one}" for one in silent) + "\n"
    if arguments.quick:
        print(text)
    else:
        with open(os.path.join(common.ROOT, "bench", "results", "pace.md"), "w") as file:
            file.write(text)


main()
