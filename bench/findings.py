#!/usr/bin/env python3
"""Precision and recall of findings, on the programs of tests/findings, whose causes are known (table.txt).

Each program runs once under `fathom run`; its findings are compared with what its row says:
- a required finding that is there is a hit, one that is missing a miss;
- a finding that is neither required nor allowed is a false one;
- `core-bound` says that there is nothing to gain: it is judged where a row requires it, and false where a row requires
  anything else.

A row may name another collection and limits (`how`): they are set by a control group and a swap file of our own. Where
these are not allowed the row is skipped, with the reason.

    bench/findings.py [--fathom PATH] [--keep DIR] [--store [FILE]] [--set NAME] [PROGRAM...]

--keep leaves the results there, and takes those that are there already instead of running again. --store writes
bench/results/findings.md, or another file there: one per machine.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

import common
import limits

FOLDER = os.path.join(common.ROOT, "tests", "findings")
NOTHING = "core-bound"
# What it says is of another machine.
ELSEWHERE = "used-by-all"
SETS = ("rules", "first", "second", "held", "system", "fresh", "blind", "unseen", "sealed", "closed")


def rows(names, chosen_set):
    """Program, set, required and allowed findings, and how it is collected."""
    for line in open(os.path.join(FOLDER, "table.txt")):
        if line.startswith("#") or not line.strip():
            continue
        program, which, required, allowed, how = (part.strip() for part in (line + "|run").split("|")[:5])
        words = [set(part.replace(",", " ").split()) - {"-"} for part in (required, allowed)]
        if (not names or program in names) and chosen_set in (None, which):
            yield program, which, *words, how


def findings(fathom, program, how, keep):
    """Ids of the findings of one run."""
    result = os.path.join(keep, f"{program} {how}".replace(" run", "").replace(" ", "-"))
    if not os.path.exists(result):
        collection, *limited = how.split()
        collect = ["run"] if collection == "run" else ["collect", collection]
        command = [fathom, *collect, "--quiet", "-r", result, "--"]
        started = [os.path.join(FOLDER, "build", program)]
        with limits.limits(limited) as within:
            subprocess.run(within(command, started), check=True, timeout=120, stdout=subprocess.DEVNULL)
    text = common.run([fathom, "report", "summary", "-r", result, "--format", "json"])
    summary = json.loads(text)
    return summary["findings"], summary["elapsed"]["value"], summary["other_cpu_percent"]["value"]


def judge(found, required, allowed):
    """(hits, misses, false ones) as sets of ids."""
    told = set(found)
    hits, misses = told & required, required - told
    false = told - required - allowed
    false.discard(ELSEWHERE)
    if required in (set(), {NOTHING}):
        false.discard(NOTHING)
    return hits, misses, false


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fathom", type=os.path.abspath, default=common.FATHOM)
    parser.add_argument("--keep")
    parser.add_argument("--store", nargs="?", const="findings.md")
    parser.add_argument("--set", choices=SETS)
    parser.add_argument("program", nargs="*")
    options = parser.parse_args()
    subprocess.run(["make", "-s", "-C", FOLDER], check=True)
    with tempfile.TemporaryDirectory() as temporary:
        keep = options.keep or temporary
        os.makedirs(keep, exist_ok=True)
        counts, lines = {}, []
        for program, which, required, allowed, how in rows(options.program, options.set):
            row = program if how == "run" else f"{program} ({how})"
            try:
                found, elapsed, others = findings(options.fathom, program, how, keep)
            except limits.NotAllowed as reason:
                lines.append(f"| {row} | {which} | {', '.join(sorted(required)) or '-'} | | | skipped: {reason} |")
                print(lines[-1], flush=True)
                continue
            ids = [one["id"] for one in found]
            hits, misses, false = judge(ids, required, allowed)
            for kind, names in enumerate((hits, misses, false)):
                for name in names:
                    counts.setdefault((which, name), [0, 0, 0])[kind] += 1
            verdict = "right" if not misses and not false else "missed " * bool(misses) + "false" * bool(false)
            lines.append(f"| {row} | {which} | {', '.join(sorted(required)) or '-'} | {', '.join(ids) or '-'} "
                         f"| {elapsed:.1f} s, {others or 0:.0f} % | {verdict.strip()} |")
            print(lines[-1], flush=True)
    report(counts, lines, options.store)


def ratios(hits, misses, false):
    precision = f"{hits / (hits + false):.2f}" if hits + false else "-"
    recall = f"{hits / (hits + misses):.2f}" if hits + misses else "-"
    return precision, recall


def report(counts, lines, store):
    text = ["# Findings: precision and recall", "", common.machine(), "",
            "Precision: of the findings reported, those that a program's row in `tests/findings/table.txt` requires (or, as",
            "secondary cause, allows: these count neither way). Recall: of those required, the reported ones.",
            "",
            "Each set but `rules` and `system` was kept out of the version that was there when it was written, and led to the next:",
            "",
            "| set | precision and recall when it was new | what it led to |",
            "|---|---|---|",
            "| first | 0.83, 0.71 | the second version |",
            "| second | 0.63, 0.77 | the third |",
            "| held | 1.00, 0.85 | how the time of loops without their memory is known |",
            "| fresh | 1.00, 0.60 | strides that change, rounds of threads, speed by progress of registers |",
            "| blind | 1.00, 0.67 | imbalance less what others took; loops without accesses; how much memory delivers by its writes |",
            "| unseen | 0.89, 0.53 | threads at a burst's time, columns whose ends no burst saw, lines that code shares together, bursts in pairs |",
            "| sealed | 0.88, 0.75 (first on a processor of another vendor; with half of it taken by others 0.93, 0.65) | what one computes before others begin; looks at who wants a CPU; time behind a thread's last sample |",
            "| closed | 0.89, 0.80 (likewise) | threads that queue for CPUs; streams in loops with registers; full buffers as long bursts |",
            "",
            "`fresh`, `blind`, `unseen`, `sealed` and `closed` were written by somebody who knew neither the rules nor their formulas: their figures when new are",
            "the fair ones for programs that nobody looked at.",
            "Others: CPU time of other programs meanwhile, percent of the machine.", "", "| set | right | missed | false | precision | recall |", "|---|---|---|---|---|---|"]
    for chosen in (*SETS, "all"):
        sums = [sum(count[kind] for (which, _), count in counts.items() if chosen in (which, "all")) for kind in range(3)]
        if any(sums):
            text.append(f"| {chosen} | {sums[0]} | {sums[1]} | {sums[2]} | {' | '.join(ratios(*sums))} |")
    text += ["", "| finding | right | missed | false | precision | recall |", "|---|---|---|---|---|---|"]
    for name in sorted({name for _, name in counts}):
        sums = [sum(count[kind] for (_, of), count in counts.items() if of == name) for kind in range(3)]
        text.append(f"| {name} | {sums[0]} | {sums[1]} | {sums[2]} | {' | '.join(ratios(*sums))} |")
    text += ["", "| program | set | required | found | elapsed, others | |", "|---|---|---|---|---|---|", *lines, ""]
    print("\n".join(text[4:]))
    if store:
        with open(os.path.join(common.ROOT, "bench", "results", store), "w") as file:
            file.write("\n".join(text))


if __name__ == "__main__":
    sys.exit(main())
