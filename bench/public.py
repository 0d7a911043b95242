#!/usr/bin/env python3
"""Loads and stores of programs that everybody has, as Fathom estimates them by default, against cachegrind.

Interpreters, a database and packers from Debian's packages run for one to three seconds each, without options of Fathom: much
code, few regular loops, several phases. What counts is whether the interval holds the truth, how far its ends are apart, and
how far the estimate is off. Several builds run in turn.

The truth is cachegrind's: a minute or two per program, kept in --truth. It counts each access of an instruction once, as Fathom
does, but emulates a processor of its own, on which libc may choose other copies of memcpy: a difference of some percent.
"""
import argparse
import json
import math
import os
import random
import re
import shutil
import statistics
import subprocess
import sys

import common

INPUTS = os.path.join(common.ROOT, "bench", "public")
LINES = 300_000


def programs(text):
    """{name: command}; `text` is a file of words."""
    own = {name: os.path.join(INPUTS, name) for name in os.listdir(INPUTS)}
    count = "{for(i=1;i<=NF;i++)c[$i]++} END{n=0; for(w in c) n+=c[w]*length(w); print n}"
    return {
        "perl": ["perl", own["strings.pl"]],
        "lua": ["lua5.4", own["tables.lua"]],
        "python": ["python3", own["tree.py"]],
        "ruby": ["ruby", own["arrays.rb"]],
        "tcl": ["tclsh", own["lists.tcl"]],
        "php": ["php", own["arrays.php"]],
        "sqlite": ["sqlite3", ":memory:", f".read {own['queries.sql']}"],
        "bc": ["bc", "-l", "-q", own["numbers.bc"]],
        "gawk": ["gawk", count, *[text] * 6],
        "gzip": ["gzip", "-9", "-c", text, text],
        "bzip2": ["bzip2", "-c", text, text],
        "zstd": ["zstd", "-q", "-12", "-c", text],
    }


def words(path):
    """Writes lines of random words: the same each time."""
    rng = random.Random(7)
    letters = "abcdefghijklmnop"
    known = ["".join(rng.choice(letters) for _ in range(rng.randint(3, 9))) for _ in range(20_000)]
    with open(path, "w") as file:
        file.writelines(" ".join(rng.choice(known) for _ in range(8)) + "\n" for _ in range(LINES))


def quietly(command):
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def truths(commands, path):
    """{program: {"loads": n, "stores": n}}, from the file or measured."""
    known = json.load(open(path)) if os.path.exists(path) else {}
    for name, command in commands.items():
        if name in known:
            continue
        print(f"cachegrind: {name}", file=sys.stderr)
        grind = ["valgrind", "--tool=cachegrind", "--cache-sim=yes", "--cachegrind-out-file=/dev/null"]
        report = quietly(grind + command).stderr
        found = re.search(r"D\s+refs:\s+[\d,]+\s+\(\s*([\d,]+)\s+rd\s+\+\s*([\d,]+)\s+wr\)", report)
        if not found:
            sys.exit(f"cachegrind of {name} failed:\n{report[-500:]}")
        loads, stores = (int(number.replace(",", "")) for number in found.groups())
        known[name] = {"loads": loads, "stores": stores}
        json.dump(known, open(path, "w"), indent=1)
    return known


def estimates(fathom, command, result):
    """(bursts, {"loads": metric, "stores": metric}) of one run."""
    shutil.rmtree(result, ignore_errors=True)
    run = quietly([fathom, "run", "-q", "-r", result, "--", *command])
    if run.returncode != 0:
        sys.exit(f"{fathom} run of {command[0]} failed: {run.stderr[-500:]}")
    summary = json.loads(common.run([fathom, "report", "summary", "-r", result, "--format", "json"]))
    return summary["coverage"]["bursts"]["value"], {name: summary[name] for name in ("loads", "stores")}


def score(found, truth):
    """What one estimate is worth; `None` where there is none."""
    if found["value"] is None or not found["low"] or found["high"] is None:
        return None
    return {
        "holds": found["low"] <= truth <= found["high"],
        "apart": found["high"] / found["low"],
        "error": found["value"] / truth - 1,
    }


def row(name, bursts, scores):
    told = [one for one in scores if one]
    if not told:
        return f"| {name} | {bursts:.0f} | {len(scores)} | {len(scores)} | | | | |"
    apart = [one["apart"] for one in told]
    mean = math.exp(statistics.fmean(math.log(one) for one in apart))
    errors = [one["error"] for one in told]
    return (f"| {name} | {bursts:.0f} | {len(scores)} | {len(scores) - len(told)} | {sum(one['holds'] for one in told)} | "
            f"{statistics.median(apart):.1f} | {mean:.1f} | {statistics.median(errors):+.0%} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fathom", nargs="+", default=[common.FATHOM], help="builds to compare")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", help="names of programs")
    parser.add_argument("--truth", default=os.path.expanduser("~/.cache/fathom-bench-public.json"))
    parser.add_argument("--keep", help="keep the results in this directory")
    parser.add_argument("--store", action="store_true", help="write bench/results/public.md")
    options = parser.parse_args()
    with common.scratch() as folder:
        text = os.path.join(folder, "words.txt")
        words(text)
        commands = programs(text)
        commands = {name: one for name, one in commands.items() if shutil.which(one[0]) and name in (options.only or commands)}
        truth = truths(commands, options.truth)
        scores, bursts = {}, {}
        for at in range(options.rounds):
            for name, command in commands.items():
                for number, fathom in enumerate(options.fathom):
                    keep = options.keep or folder
                    count, found = estimates(fathom, command, os.path.join(keep, f"{number}-{name}-{at}"))
                    for quantity, one in found.items():
                        scores.setdefault((number, name), []).append(score(one, truth[name][quantity]))
                    bursts.setdefault((number, name), []).append(count)
        lines = [f"{common.machine()}; {options.rounds} rounds, loads and stores", ""]
        for number, fathom in enumerate(options.fathom):
            lines += [f"`{os.path.basename(fathom)}`:", "",
                      "| program | bursts | estimates | not told | hold the truth | ends apart, median | mean | error, median |",
                      "|---|---|---|---|---|---|---|---|"]
            lines += [row(name, statistics.fmean(bursts[number, name]), scores[number, name]) for name in commands]
            every = [one for name in commands for one in scores[number, name]]
            lines += [row("all", statistics.fmean(n for name in commands for n in bursts[number, name]), every), ""]
        print("\n".join(lines))
        if options.store:
            common.store("public", "\n".join(["# Loads and stores of programs that everybody has", "", *lines]))


if __name__ == "__main__":
    main()
