#!/usr/bin/env python3
"""Findings and their gains on drawn programs that are slow for a known reason, with a repaired twin and a near-miss each.

The true gain is measured: the slow program and its repaired twin run alone in turns, with as many repeats. Where the
twin is not surely quicker by 5 %, nothing is wanted of Fathom. The programs: drawn/causes.py. A wanted finding is a hit in the
slow one, false in the twin and in the near-miss; findings that are neither wanted nor allowed are listed, not judged: a
program may have a second cause. A predicted gain is right when its interval meets that of the measured one; its width is half
its interval over its value, and the median over all that are real says how sharp predictions are.

Gains are of the program without a profiler. Machines drift, so what was measured is scaled by what the slow program took alone
just before and behind the recording.
"""
import argparse
import collections
import json
import os
import random
import statistics
import subprocess
import sys

import common

sys.path.insert(0, os.path.join(common.ROOT, "bench", "drawn"))
import causes  # noqa: E402
import generate  # noqa: E402
import score  # noqa: E402
import truth  # noqa: E402

VARIANTS = ("slow", "repaired", "near-miss")
LEAST_GAIN = 0.05


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, help="of the programs; without it a new one, which is printed")
    parser.add_argument("--count", type=int, default=2 * len(causes.CAUSES), help="causes drawn (two of each kind)")
    parser.add_argument("--index", type=int, action="append", help="only this cause of the seed (repeatable)")
    parser.add_argument("--only", choices=sorted(causes.CAUSES), help="causes of this kind only")
    parser.add_argument("--rounds", type=int, default=5, help="pairs of runs that measure the gain (5)")
    parser.add_argument("--fathom", type=os.path.abspath, default=common.FATHOM, help="the program to test")
    parser.add_argument("--keep", type=os.path.abspath, metavar="DIR", help="leave sources, binaries and results here")
    parser.add_argument("--store", action="store_true", help="keep the result in bench/results")
    options = parser.parse_args()
    if options.seed is None:
        options.seed = random.SystemRandom().randrange(1 << 31)
    return options


def build(cause, folder):
    """Paths of the three variants."""
    os.makedirs(folder, exist_ok=True)
    source, runtime = os.path.join(folder, "program.c"), os.path.join(folder, "runtime.o")
    with open(source, "w") as file:
        file.write(cause.source)
    subprocess.run(["gcc", "-std=gnu11", "-O3", "-march=x86-64-v3", "-g", "-fno-builtin", "-c",
                    os.path.join(generate.HERE, "runtime.c"), "-o", runtime], check=True)
    binaries = [os.path.join(folder, name) for name in VARIANTS]
    for variant, binary in enumerate(binaries):
        subprocess.run([*cause.flags, "-std=gnu11", *generate.FLAGS, f"-DVARIANT={variant}", f"-I{generate.HERE}", source, runtime,
                        "-o", binary, "-pthread", "-lm"], check=True)
    return binaries


def stated(binary, repeats):
    return truth.last_line(common.run([binary, str(repeats)]))


def repeats_for(binary, cause, seconds):
    """So many that the phase takes about that long."""
    if cause.repeats:
        return cause.repeats
    tries, took = 2, 0.0
    while took < 0.1:
        tries, took = 2 * tries, stated(binary, 2 * tries)["seconds"][0]
    return max(1, round(tries * seconds / took))


def true_gain(binaries, repeats, rounds):
    """(gain, low, high) in seconds of the phase, and the slow one's seconds: medians of runs in turn."""
    gains, slow = [], []
    for number in range(rounds):
        order = [0, 1] if number % 2 else [1, 0]
        took = {variant: stated(binaries[variant], repeats)["seconds"][0] for variant in order}
        gains.append(took[0] - took[1])
        slow.append(took[0])
    return (statistics.median(gains), *common.interval(gains)), statistics.median(slow)


def findings(binary, repeats, result, fathom):
    """{id: (gain, low, high) or None}, the first of each id."""
    common.run([fathom, "run", "-q", "-r", result, "--", binary, str(repeats)])
    summary = json.loads(common.run([fathom, "report", "summary", "--format", "json", "-r", result]))
    told = {}
    for finding in summary["findings"]:
        told.setdefault(finding["id"], truth.scaled(finding["predicted_gain"], 1))
    return told


def judge(cause, binaries, options, folder, seconds):
    """Everything known of one cause."""
    repeats = repeats_for(binaries[0], cause, seconds)
    gain, slow = true_gain(binaries, repeats, options.rounds)
    near = cause.repeats or repeats_for(binaries[2], cause, seconds)
    before = stated(binaries[0], repeats)["seconds"][0]
    told = [findings(binary, count, os.path.join(folder, f"result-{name}"), options.fathom)
            for name, binary, count in zip(VARIANTS, binaries, (repeats, repeats, near))]
    now = statistics.mean([before, stated(binaries[0], repeats)["seconds"][0]])
    real = gain[1] >= LEAST_GAIN * slow
    hits = [name for name in cause.wanted if name in told[0]]
    verdict = "no gain here" if not real else "hit" if hits else "missed"
    false = [f"{name} in the {which}" for which, ids in zip(VARIANTS[1:], told[1:]) for name in cause.wanted if name in ids]
    others = sorted({name for name in told[0] if name not in (*cause.wanted, *cause.allowed, "core-bound", "used-by-all")})
    predicted = told[0][hits[0]] if hits else None
    gain = tuple(part * now / slow for part in gain)
    inside = real and predicted and predicted[1] <= gain[2] and gain[1] <= predicted[2]
    return {"cause": cause, "gain": gain, "slow": now, "verdict": verdict, "false": false, "others": others,
            "predicted": predicted if real else None, "inside": bool(inside)}


def interval_text(values):
    return "-" if values is None else f"{values[0]:.2f} s ({values[1]:.2f} to {values[2]:.2f})"


def width(rows):
    """Half the predicted interval over its value, percent, in the median."""
    halves = [50 * (high - low) / value for value, low, high in (row["predicted"] for row in rows) if value > 0]
    return f"{statistics.median(halves):.0f} %" if halves else "-"


def ratio(hits, of):
    low, high = score.binomial_interval(hits, of)
    return f"{hits} of {of} ({low:.0f} to {high:.0f} %)"


def report(rows, options, stolen):
    counted, by_kind = collections.Counter(), []
    for kind in sorted(causes.CAUSES):
        own = [row for row in rows if row["cause"].name == kind]
        if own:
            numbers = [sum(row["verdict"] == word for row in own) for word in ("hit", "missed", "no gain here")]
            false, given = sum(len(row["false"]) for row in own), [row for row in own if row["predicted"]]
            inside = sum(row["inside"] for row in given)
            by_kind.append([kind, *map(str, numbers), str(false), f"{inside} of {len(given)}", width(given)])
            counted.update(hit=numbers[0], missed=numbers[1], false=false, inside=inside, given=len(given))
    heads = ["cause", "hit", "missed", "no gain here", "false", "gain inside predicted", "half width"]
    lines = [["program", "cause", "built with", "slow", "true gain", "predicted", "verdict", "false", "other findings"]]
    for row in rows:
        cause = row["cause"]
        lines.append([row["name"], f"{cause.name}: {cause.detail}", " ".join(cause.flags), f"{row['slow']:.2f} s",
                      interval_text(row["gain"]), interval_text(row["predicted"]), row["verdict"], ", ".join(row["false"]) or "-",
                      ", ".join(row["others"]) or "-"])
    return "\n".join([
        "# Findings on drawn causes", "", common.machine(), "",
        f"Seed {options.seed}, {len(rows)} causes, gains of {options.rounds} pairs; load average at the end {os.getloadavg()[1]:.1f}, "
        f"{stolen:.1f} s of CPU stolen by the hypervisor.", "",
        f"Recall {ratio(counted['hit'], counted['hit'] + counted['missed'])}; precision "
        f"{ratio(counted['hit'], counted['hit'] + counted['false'])}; gain inside the predicted interval "
        f"{ratio(counted['inside'], counted['given'])}, which is ±{width([row for row in rows if row['predicted']])} wide in the "
        "median.", "", *truth.aligned([heads, *by_kind]), "", *truth.aligned(lines)]) + "\n"


def main():
    options = arguments()
    stolen, rows = common.steal_and_load()[0], []
    print(f"seed {options.seed}", flush=True)
    with common.scratch() as scratch:
        for index in options.index or range(options.count):
            cause = causes.cause(options.seed, index, options.only)
            folder = os.path.join(options.keep or scratch, str(index))
            seconds = 1.0 + 2.0 * random.Random(f"time/{options.seed}/{index}").random()
            row = judge(cause, build(cause, folder), options, folder, seconds)
            rows.append({**row, "name": f"{options.seed}/{index}"})
            print(f"{rows[-1]['name']}: {cause.name}, {cause.detail}: {row['verdict']}, gain {interval_text(row['gain'])} of "
                  f"{row['slow']:.2f} s, predicted {interval_text(row['predicted'])}; false: {row['false']}; others: {row['others']}",
                  flush=True)
            if not options.keep:
                subprocess.run(["rm", "-rf", folder], check=True)
    text = report(rows, options, common.steal_and_load()[0] - stolen)
    print("\n" + text)
    if options.store:
        common.store("drawn-causes", text)


if __name__ == "__main__":
    sys.exit(main())
