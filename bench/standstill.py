#!/usr/bin/env python3
"""How long a thread stands still for the burst tracer, seen from inside: the gaps of a loop that only reads the clock.

`tests/programs/stand_still` keeps each gap over 2 microseconds. The kernel's and the hypervisor's gaps are among them,
so it runs alone and under fathom in turn, and the gaps that fathom adds are found by subtracting the counts of the two
histograms (equal length of time), longest classes first. Bursts every 20 ms. Goals: median 60, p99 300 microseconds.
"""
import os
import re
import statistics

import common

MS = 10000
KNOBS = ["-k", "dram-bandwidth-limits=false", "-k", "burst-interval=20"]
GOALS = {"median": 60, "p99": 300}


def histogram(text):
    """{lower end in microseconds: count}"""
    return {int(low): int(count) for low, count in re.findall(r"^from_(\d+)_us=(\d+)", text, re.M)}


def quantile_class(counts, share):
    """The class that holds this share of the counts, as text."""
    left = share * sum(counts.values())
    for low, count in sorted(counts.items()):
        left -= count
        if left <= 0 and count:
            return f"{low}..{2 * low} us"
    return "none"


def main():
    options = common.arguments()
    common.prepare()
    program = [f"{common.PROGRAMS}/stand_still", "--ms", str(MS)]
    texts = {"alone": [], "fathom": []}
    for number in range(options.rounds):
        for who in sorted(texts, reverse=number % 2 == 1):
            with common.scratch() as folder:
                wrapped = [common.FATHOM, "collect", "memory-access", "-q", *KNOBS, "-r", os.path.join(folder, "result"), "--"]
                texts[who].append(common.run(program if who == "alone" else wrapped + program))
            print(who, *re.findall(r"^(?:gaps|median_us|p99_us|max_us)=.*", texts[who][-1], re.M), flush=True)
    text = ["# Stand-still for bursts", "", common.machine(), "",
            f"{options.rounds} rounds of {MS / 1000:.0f} s each, alternating; medians over the rounds; bursts every 20 ms.", "",
            "| | gaps over 2 us | median | p99 | longest | stood still |", "|---|---|---|---|---|---|"]
    for who, found in texts.items():
        middle = {key: statistics.median(common.value(one, key) for one in found)
                  for key in ("gaps", "median_us", "p99_us", "max_us", "stood_still_us")}
        text.append(f"| {who} | {middle['gaps']:.0f} | {middle['median_us']:.1f} us | {middle['p99_us']:.1f} us | {middle['max_us']:.0f} us | "
                    f"{middle['stood_still_us'] / (MS * 1000) * 100:.2f} % |")
    sums = {who: {low: sum(histogram(one)[low] for one in found) for low in histogram(found[0])} for who, found in texts.items()}
    added = {low: max(0, sums["fathom"][low] - sums["alone"][low]) for low in sums["alone"]}
    text += ["", "| gap from, us | " + " | ".join(map(str, added)) + " |", "|---|" + "---|" * len(added)]
    text += ["| " + " | ".join([who, *map(str, counts.values())]) + " |" for who, counts in (*sums.items(), ("added", added))]
    text += ["", f"Of the gaps that fathom added: median {quantile_class(added, 0.5)} (goal {GOALS['median']} us), "
                 f"p99 {quantile_class(added, 0.99)} (goal {GOALS['p99']} us)."]
    print("\n".join(text))
    if options.store:
        common.store("standstill", "\n".join(text) + "\n")


if __name__ == "__main__":
    main()
