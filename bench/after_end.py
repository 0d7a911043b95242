#!/usr/bin/env python3
"""How long after a program's end its report appears, and what the time goes into.

Each program runs under `fathom run` with stderr at a terminal of its own, so that the progress lines say when which part of
the work after the end was done. `end` is the program's own end, as the result has it (its start plus `elapsed`). All columns
are seconds after it: timing hot code, naming functions, the report's first line, the prompt. `cpu` is the CPU time of the whole
command less the program's and what was used until the end. The goal: the report after at most a second, or 5 % of the
program's run where that is more, never over 3 s.

Programs that are not installed are left out and named. LULESH and other programs come from FATHOM_AFTER_END, a JSON file of
{name: command}.
"""
import json
import os
import pty
import re
import resource
import shutil
import statistics
import subprocess
import threading
import time

import common

PYTHON = os.environ.get("FATHOM_PYTHON", "python3")
PROGRAMS = {
    "true": ["true"],
    "fib": [f"{common.PROGRAMS}/fib", "--n", "38"],
    "triad, 1 thread": [f"{common.RECIPES}/stream", "--elements", "20000000", "--repeat", "4", "--threads", "1"],
    "matrix product": [f"{common.RECIPES}/multiply1", "--size", "768", "--threads", "2"],
    "chase 256 MB": [f"{common.PROGRAMS}/access_patterns", "--chase", "2"],
    "C++ exceptions": [f"{common.PROGRAMS}/exceptions_map", "--rounds", "60000"],
    "gcc": ["gcc", "-O2", "-c", f"{common.ROOT}/recipes/stream.c", "-o", "/dev/null"],
    "make": ["sh", "-c", f"for i in 1 2 3 4 5 6; do gcc -O1 -c {common.ROOT}/recipes/stream.c -o /dev/null; done"],
    "sqlite": ["sqlite3", ":memory:", "with recursive c(x) as (select 1 union all select x+1 from c where x<3000000) select sum(x) from c;"],
    "python": [PYTHON, "-c", "d={}\nfor i in range(3000000): d[i%50021]=d.get(i%50021,0)+i"],
    "perl hash": ["perl", "-e", 'my %h; for my $i (0..2000000){ $h{($i*7919)%1500007}.="x"; }'],
    "git log": ["git", "-C", common.ROOT, "log", "--stat", "-p", "-n", "300"],
    "stockfish": ["/usr/games/stockfish", "bench", "16", "1", "12"],
    "pandas": [PYTHON, "-c", "import pandas as p,numpy as n; d=p.DataFrame({'k':n.random.randint(0,1000000,5000000),"
               "'v':n.random.rand(5000000)}); d.groupby('k').v.mean().sum(); d.merge(d.head(500000),on='k').shape"],
    "duckdb": [PYTHON, "-c", "import duckdb as d; d.sql('select sum(c) from (select r%1000003 k, count(*) c from "
               "(select range*7919 r from range(20000000)) group by k)').fetchall()"],
    "numpy product": [PYTHON, "-c", "import numpy as n\na=n.random.rand(600,600)\nfor i in range(60): a@a"],
}


class Terminal:
    """Reads what is written to a terminal or pipe, with the time of each piece."""

    def __init__(self, descriptor):
        self.pieces, self.descriptor = [], descriptor
        self.thread = threading.Thread(target=self.read)
        self.thread.start()

    def read(self):
        while True:
            try:
                piece = os.read(self.descriptor, 1 << 16)
            except OSError:  # EIO: the terminal's other end is closed
                break
            if not piece:
                break
            self.pieces.append((time.monotonic(), piece))
        os.close(self.descriptor)

    def last(self, words):
        """When words were written last."""
        return max((when for when, piece in self.pieces if words in piece), default=None)


def once(command, folder):
    """Seconds after the program's end, by part."""
    result = os.path.join(folder, "result")
    ours, theirs = pty.openpty()
    out, stdout = os.pipe()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.monotonic()
    process = subprocess.Popen([common.FATHOM, "run", "-k", "dram-bandwidth-limits=false", "-r", result, "--", *command],
                               stdout=stdout, stderr=theirs, stdin=subprocess.DEVNULL)
    os.close(stdout)
    os.close(theirs)
    progress, report = Terminal(ours), Terminal(out)
    process.wait()
    prompt = time.monotonic()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    progress.thread.join()
    report.thread.join()
    run = json.load(open(os.path.join(result, "run.json")))
    cost = run["own_cost"]
    end = began + (cost["startup_ns"] + run["elapsed_ns"]) / 1e9
    use = run["resource_use"] or {"user_ns": 0, "system_ns": 0}
    cpu = sum(getattr(after, name) - getattr(before, name) for name in ("ru_utime", "ru_stime"))
    cpu -= (use["user_ns"] + use["system_ns"] + cost["cpu_time_ns"]) / 1e9
    shown = report.last(b"\n  Elapsed ")
    at = lambda when: float("nan") if when is None else when - end
    found = {"run": run["elapsed_ns"] / 1e9, "timing": at(progress.last(b"timing hot code")),
             "naming": at(progress.last(b"naming functions")), "report": at(shown), "prompt": at(prompt), "cpu": cpu}
    shutil.rmtree(result)
    return found


def allowed(seconds):
    return min(max(1.0, 0.05 * seconds), 3.0)


def main():
    options = common.arguments()
    common.prepare()
    programs = dict(PROGRAMS)
    if "FATHOM_AFTER_END" in os.environ:
        programs |= json.load(open(os.environ["FATHOM_AFTER_END"]))
    stolen, rows, missing = common.steal_and_load()[0], [], []
    with common.scratch() as folder:
        for name, command in programs.items():
            if shutil.which(command[0]) is None:
                missing.append(name)
                continue
            found = [once(command, folder) for _ in range(options.rounds)]
            part = lambda key: [one[key] for one in found]
            worst = max(part("report"))
            rows.append([name, *(f"{statistics.median(part(key)):.2f}" for key in ("run", "timing", "naming", "report")),
                         f"{worst:.2f}", f"{allowed(statistics.median(part('run'))):.2f}",
                         *(f"{statistics.median(part(key)):.2f}" for key in ("prompt", "cpu"))])
            print(" | ".join(rows[-1]), flush=True)
    text = ["# Report after a program's end", "", common.machine(), "",
            f"Medians of {options.rounds} runs, seconds after the program's end (`run`: its length); "
            f"{common.steal_and_load()[0] - stolen:.1f} s of CPU stolen by the hypervisor meanwhile. `cpu`: CPU time used after "
            "the end. nan: no such part took long enough to be shown.", "",
            "| program | run | timing | naming | report | latest | allowed | prompt | cpu |", "|" + "---|" * 9]
    text += ["| " + " | ".join(row) + " |" for row in rows]
    text += [""] + [f"Left out, not installed: {', '.join(missing)}."] * bool(missing)
    print("\n".join(text))
    if options.store:
        common.store("after-end", "\n".join(text) + "\n")


if __name__ == "__main__":
    main()
