#!/usr/bin/env python3
"""The top-down trees of drawn counts, by Intel's own expanded formulas and Python's arithmetic: the test's second opinion.

expected.py PERFMON.tar.xz SEED [CPU...]; one line per CPU and draw, with tabs: CPU, whether two threads share a core,
EVENT=COUNT..., NODE=PERCENT:OVER... (`n/a` where something is divided by 0 or is not countable). What not: the compact
tables of crates/analysis/src/uarch, which come from other fields of these files.
"""

import json
import random
import re
import sys
import tarfile

MAPS = {"HSW": "haswell", "HSX": "haswellx", "BDW": "broadwell", "BDX": "broadwellx", "SKL": "skylake", "SKX": "skylakex",
        "CLX": "cascadelakex", "ICL": "icelake", "TGL": "tigerlake", "RKL": "rocketlake", "ICX": "icelakex",
        "SPR": "sapphirerapids", "EMR": "emeraldrapids", "GNR": "graniterapids"}
# Performance cores of hybrids: folder, file.
HYBRIDS = {"ADL-P": "ADL/metrics/alderlake_metrics_goldencove_core.json",
           "MTL-P": "MTL/metrics/meteorlake_metrics_redwoodcove_core.json",
           "LNL-P": "LNL/metrics/lunarlake_metrics_lioncove_core.json",
           "ARL-P": "ARL/metrics/arrowlake_metrics_lioncove_core.json"}
SECONDS, TSC_HZ = 2.0, 2.5e9
TOP = ("Frontend_Bound", "Bad_Speculation", "Backend_Bound", "Retiring")


def draw(random_, name, cycles):
    if "retire_latency" in name:
        return None
    if name in ("cpu_clk_unhalted.thread", "topdown.slots:perf_metrics", "topdown.slots"):
        return cycles * (6 if "slots" in name else 1)
    # Now and then there is none: what is divided by it has no value.
    return 0 if random_.random() < 0.03 else int(cycles * 10 ** random_.uniform(-4, 0))


def evaluate(formula, known):
    formula = formula.replace("> =", ">=")
    try:
        return eval(formula, {"__builtins__": {}, "max": max, "min": min}, known)
    except (ZeroDivisionError, NameError):
        return None


def tree(metrics, random_):
    metrics = [metric for metric in metrics if metric.get("Category") == "TMA" and metric["Level"] <= 4
               and metric.get("Threshold") and (metric.get("ParentCategory") or metric["MetricName"] in TOP)]
    smt = random_.random() < 0.5
    constants = {"smt_on": smt, "threads": 2 if smt else 1, "durationtimeinmilliseconds": SECONDS * 1000}
    cycles = random_.randrange(10**9, 10**10)
    names = sorted({event["Name"].lower() for metric in metrics for event in metric["Events"]})
    counts = {name: draw(random_, name, cycles) for name in names}
    values = {}
    for metric in metrics:
        known = {event["Alias"]: counts[event["Name"].lower()] for event in metric["Events"]}
        known = {alias: count for alias, count in known.items() if count is not None}
        for constant in metric["Constants"]:
            alias, name = constant["Alias"], constant["Name"]
            known[alias] = constants.get(alias, float(name) if name.isdigit() else TSC_HZ * SECONDS)
        values[metric["LegacyName"]] = evaluate(metric["Formula"], known)
    nodes = []
    for metric in metrics:
        threshold = metric["Threshold"]
        formula = threshold["Formula"].replace("&", " and ").replace("|", " or ")
        known = {one["Alias"]: values[one["Value"]] for one in threshold["ThresholdMetrics"]}
        over = evaluate(formula, {alias: value for alias, value in known.items() if value is not None})
        value = values[metric["LegacyName"]]
        name = re.sub("^4k_aliasing$", "aliasing_4k", metric["MetricName"].lower())
        shown = "n/a" if value is None else f"{value!r}:{'yes' if over else 'no'}"
        nodes.append(f"{name}={shown}")
    counted = [f"{name}:{count}" for name, count in counts.items() if count is not None]
    return "yes" if smt else "no", " ".join(counted), " ".join(nodes)


def main():
    archive, seed, cpus = tarfile.open(sys.argv[1]), int(sys.argv[2]), sys.argv[3:] or [*MAPS, *HYBRIDS]
    for cpu in cpus:
        file = HYBRIDS[cpu] if cpu in HYBRIDS else f"{cpu}/metrics/{MAPS[cpu]}_metrics.json"
        member = next(name for name in archive.getnames() if name.endswith(file))
        metrics = json.load(archive.extractfile(member))["Metrics"]
        print(cpu, *tree(metrics, random.Random(f"{seed} {cpu}")), sep="\t")


main()
