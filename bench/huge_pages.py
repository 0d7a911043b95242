#!/usr/bin/env python3
"""Gains that Fathom predicts for huge pages, on drawn programs, against the remedy as `fathom try huge-pages` makes it.

Programs: the slow ones of drawn/causes.py that walk the page table or touch new memory, by turns. Each is recorded, then run alone by turns as it
is and with GLIBC_TUNABLES=glibc.malloc.hugetlb=1; times are of the whole process, getting the memory included. Predicted: the sum of the
gains of `tlb-bound` and `fault-startup`; without either, less than a finding needs, with any cost. Right: the intervals meet. Pages are read
before each recording, so the table also has what a page of 2 MiB cost then, over the 512 small ones.

    bench/huge_pages.py [--seed N] [--count 10] [--rounds 5] [--fathom PATH] [--store]
"""
import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import time

import common
import drawn_causes

sys.path.insert(0, os.path.join(common.ROOT, "bench", "drawn"))
import causes  # noqa: E402
import score  # noqa: E402

KINDS = ("tlb-bound", "fault-startup")
REMEDY = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
# Of the elapsed time: less is no finding (analysis/src/findings/mod.rs).
LEAST_GAIN = 0.03


def took(binary, repeats, environment):
    start = time.monotonic()
    subprocess.run([binary, str(repeats)], check=True, stdout=subprocess.DEVNULL, env={**os.environ, **environment})
    return time.monotonic() - start


def predicted(binary, repeats, result, fathom):
    """(gain, low, high) in seconds, the findings, and the cost of a large page over the small ones."""
    common.run([fathom, "run", "-q", "-r", result, "--", binary, str(repeats)])
    summary = json.loads(common.run([fathom, "report", "summary", "--format", "json", "-r", result]))
    own, gain = [], [0.0, 0.0, 0.0]
    for finding in summary["findings"]:
        metric = finding["predicted_gain"]
        if finding["id"] in KINDS and finding["id"] not in own and metric["value"] is not None:
            own.append(finding["id"])
            gain = [so_far + metric[end] for so_far, end in zip(gain, ("value", "low", "high"))]
    costs = [summary["machine"][name]["value"] for name in ("page_fault_2m", "page_fault_4k")]
    ratio = costs[0] / (512 * costs[1]) if None not in costs else None
    if not own:
        least = LEAST_GAIN * summary["elapsed"]["value"]
        gain = [0.0, float("-inf"), least]
    return gain, own, ratio


def row(index, options, folder):
    kind = KINDS[index % len(KINDS)]
    cause = causes.cause(options.seed, index, kind)
    binary = drawn_causes.build(cause, folder)[0]
    seconds = 1.0 + random.Random(f"time/{options.seed}/{index}").random()
    repeats = drawn_causes.repeats_for(binary, cause, seconds)
    gain, own, ratio = predicted(binary, repeats, os.path.join(folder, "result"), options.fathom)
    gains, plain = [], []
    for number in range(options.rounds):
        times = {}
        for way in (0, 1) if number % 2 else (1, 0):
            times[way] = took(binary, repeats, REMEDY if way else {})
        gains.append(times[0] - times[1])
        plain.append(times[0])
    tried = (statistics.median(gains), *common.interval(gains))
    inside = gain[1] <= tried[2] and tried[1] <= gain[2]
    return {"name": f"{options.seed}/{index}", "cause": f"{cause.name}: {cause.detail}", "plain": statistics.median(plain), "tried": tried,
            "gain": gain, "own": own, "ratio": ratio, "inside": inside}


def text_of(rows, options):
    lines = [["program", "cause", "as it is", "tried", "predicted", "findings", "2 MiB over 512 small", "inside"]]
    for one in rows:
        found = drawn_causes.interval_text(one["gain"]) if one["own"] else f"below {one['gain'][2]:.2f} s"
        ratio = "-" if one["ratio"] is None else f"{one['ratio']:.2f}"
        lines.append([one["name"], one["cause"], f"{one['plain']:.2f} s", drawn_causes.interval_text(one["tried"]), found,
                      ", ".join(one["own"]) or "-", ratio, "yes" if one["inside"] else "NO"])
    inside = sum(one["inside"] for one in rows)
    return "\n".join([
        "# Huge pages: predicted and tried", "", common.machine(), "",
        f"Seed {options.seed}, {len(rows)} programs, {options.rounds} pairs each; load average at the end {os.getloadavg()[1]:.1f}. "
        f"Tried gain inside the predicted interval: {drawn_causes.ratio(inside, len(rows))}.", "", *drawn_causes.truth.aligned(lines)]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="number of the first program")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--fathom", type=os.path.abspath, default=common.FATHOM)
    parser.add_argument("--keep", metavar="FILE", help="rows are kept there, and those of an earlier call come first")
    parser.add_argument("--store", action="store_true")
    options = parser.parse_args()
    rows = json.load(open(options.keep)) if options.keep and os.path.exists(options.keep) else []
    print(f"seed {options.seed}", flush=True)
    for index in range(options.first, options.first + options.count):
        with common.scratch() as scratch:
            rows.append(row(index, options, scratch))
        print(rows[-1], flush=True)
        if options.keep:
            with open(options.keep, "w") as file:
                json.dump(rows, file)
    text = text_of(rows, options)
    print("\n" + text)
    if options.store:
        common.store("huge-pages", text)


if __name__ == "__main__":
    sys.exit(main())
