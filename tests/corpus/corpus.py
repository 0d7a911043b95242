#!/usr/bin/env python3
"""Real and nasty programs under the burst tracer: their output and exit code must be those of a run alone.

Each program of `table.py` runs twice alone (the known answer, and that it is one), then so often started by fathom
(--runs), attached to at a random moment (--attaches), and bereft of fathom by kill -9 at a random moment (--kills).
A time limit turns a hang into a failure. Everything random comes from --seed, and a failure says how to repeat it.
Exit code: 0 when nothing failed, 1 otherwise.
"""
import argparse
import os
import shutil
import subprocess
import sys
import tempfile

import processes
import runs
import table

SHORT = {"runs": 2, "attaches": 0, "kills": 1}
MODES = (("launch", "runs"), ("attach", "attaches"), ("kill", "kills"))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=20, help="runs started by fathom, per program (20)")
    parser.add_argument("--attaches", type=int, default=5, help="runs that fathom attaches to (5)")
    parser.add_argument("--kills", type=int, default=0, help="runs in which fathom is killed (0)")
    parser.add_argument("--short", action="store_true", help="ten of our own programs, two runs each and one kill")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="only this program (repeatable)")
    parser.add_argument("--first", type=int, default=0, help="number of the first run, to repeat one")
    parser.add_argument("--seed", default="1", help="all that is random comes from it (1)")
    parser.add_argument("--fathom", type=os.path.abspath, default=os.path.join(table.ROOT, "target", "release", "fathom"))
    parser.add_argument("--burst-interval", default="1", metavar="MS", help="mean time between bursts (1)")
    parser.add_argument("-k", "--knob", action="append", default=[], help="another knob for fathom")
    parser.add_argument("--no-knobs", action="store_true", help="a fathom without bursts: tests this harness")
    parser.add_argument("--keep", metavar="DIR", help="keep the folders of failed runs there")
    options = parser.parse_args()
    if options.short:
        options.runs, options.attaches, options.kills = SHORT["runs"], SHORT["attaches"], SHORT["kills"]
    return options


def chosen(options):
    """The programs to run, and a line for each that cannot."""
    rows = [row for row in table.rows() if (not options.only or row.name in options.only) and (row.short or not options.short)]
    unknown = set(options.only) - {row.name for row in rows}
    if unknown or not rows:
        sys.exit(f"no such program: {', '.join(sorted(unknown))}; there are: {', '.join(row.name for row in table.rows())}")
    for row in rows:
        if row.missing():
            print(f"skipped: {row.name}: {row.missing()} is not there (make corpus installs and builds what is needed)")
    return [row for row in rows if not row.missing()]


def repeat(options, program, mode, number):
    """The command that makes this run again."""
    counts = " ".join(f"--{option} {int(name == mode)}" for name, option in MODES)
    return f"{sys.argv[0]} --only '{program.name}' {counts} --first {number} --seed {options.seed}"


def check(bench, program, options):
    """All runs of one program: (row of the report, [failures])."""
    first = bench.run(program, "alone", "alone")
    second = first if options.short else bench.run(program, "alone", "alone")
    alike = (first.output, first.code) == (second.output, second.code)
    if first.problems or second.problems or not alike or first.code != program.code:
        said = first.problems + second.problems or [
            f"exit codes {first.code}, {second.code}, expected {program.code}; "
            + ("same output" if first.output == second.output else runs.first_difference(first.output, second.output))]
        return [program.name, "wrong"], [(f"{program.name} alone", said, repeat(options, program, "", 0))]
    cells, failures = [f"{first.seconds:.2f} s"], []
    for mode, option in MODES:
        count = getattr(options, option)
        well, bursts, killed = 0, None, 0
        for number in range(options.first, options.first + count):
            outcome = bench.run(program, mode, f"{options.seed}/{program.name}/{mode}/{number}", first)
            well += not outcome.problems
            bursts = bursts if outcome.bursts is None else (bursts or 0) + outcome.bursts
            killed += outcome.killed > 0
            if outcome.problems:
                failures.append((f"{program.name} {mode} {number}", outcome.problems, repeat(options, program, mode, number)))
        more = {"kill": f" ({killed} hit)"}.get(mode, "" if bursts is None else f" ({bursts} bursts)")
        cells.append(f"{well}/{count}{more}" if count else "-")
    return [program.name, *cells], failures


def main():
    options = arguments()
    processes.adopt_orphans()
    programs = chosen(options)
    knobs = ["-k", "dram-bandwidth-limits=false"]
    if not options.no_knobs:
        knobs += ["-k", f"burst-interval={options.burst_interval}"]
    for knob in options.knob:
        knobs += ["-k", knob]
    print(subprocess.run([options.fathom, "--version"], capture_output=True, text=True, check=True).stdout.strip(),
          " ".join(knobs), f"seed {options.seed}", flush=True)
    print(f"{'program':24}{'alone':>9}  {'started':24}{'attached':24}killed", flush=True)
    data, failures = tempfile.mkdtemp(prefix="fathom-corpus-data-"), []
    os.chmod(data, 0o755)
    try:
        table.prepare(data, programs)
        bench = runs.Bench(options.fathom, knobs, data, options.keep)
        for program in programs:
            cells, failed = check(bench, program, options)
            print(f"{cells[0]:24}{cells[1]:>9}  " + "".join(f"{cell:24}" for cell in cells[2:]).rstrip(), flush=True)
            for what, problems, again in failed:
                print(f"  FAILED {what}\n    " + "\n".join(problems).replace("\n", "\n    ") + f"\n    again: {again}", flush=True)
            failures += failed
    finally:
        shutil.rmtree(data, ignore_errors=True)
    print(f"{len(programs)} programs, {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
