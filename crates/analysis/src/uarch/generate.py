#!/usr/bin/env python3
"""Makes intel.tsv from Intel's public event and metric tables: generate.py PERFMON > intel.tsv

PERFMON is a checkout of https://github.com/intel/perfmon (BSD-3-Clause; its notice is carried over). Only the
levels 1 to 4 of the top-down tree are kept, with the values and events that their formulas need. What not: hybrid
cores, uncore events.
"""

import json
import re
import sys
from pathlib import Path

LEVELS = 4
# Letter, folder, start of the file's name.
CPUS = [
    ("a", "HSW", "haswell"), ("b", "HSX", "haswellx"), ("c", "BDW", "broadwell"), ("d", "BDX", "broadwellx"),
    ("e", "SKL", "skylake"), ("f", "SKX", "skylakex"), ("g", "CLX", "cascadelakex"), ("h", "ICL", "icelake"),
    ("i", "TGL", "tigerlake"), ("j", "RKL", "rocketlake"), ("k", "ICX", "icelakex"), ("l", "SPR", "sapphirerapids"),
    ("m", "EMR", "emeraldrapids"), ("n", "GNR", "graniterapids"),
]
TOP = ("Frontend_Bound", "Bad_Speculation", "Backend_Bound", "Retiring")
OF = {"Slots": "slots", "Uops": "uops"}
WORD = re.compile(r"[A-Za-z_][\w.:]*(?:=0x[0-9a-f]+)?")
# What the kernel wants for counters that count one thing only (tools/perf/pmu-events, "fixed counters").
FIXED = {
    "inst_retired.any": "event=0xc0",
    "cpu_clk_unhalted.thread": "event=0x3c",
    "cpu_clk_unhalted.thread_any": "event=0x3c,any=0x1",
    "cpu_clk_unhalted.ref_tsc": "event=0x0,umask=0x3",
    "topdown.slots": "event=0x0,umask=0x4",
}
# Parts of the register PERF_METRICS (arch/x86/events/intel/core.c, "topdown").
PERF_METRICS = ["retiring", "bad_speculation", "frontend_bound", "backend_bound", "heavy_operations",
                "branch_mispredicts", "fetch_latency", "memory_bound"]
# Events of common counters that count what parts of PERF_METRICS do: these can be sampled, that register cannot.
SAMPLED = ["TOPDOWN.SLOTS_P", "UOPS_RETIRED.SLOTS", "IDQ_BUBBLES.CORE", "IDQ_UOPS_NOT_DELIVERED.CORE",
           "TOPDOWN.BACKEND_BOUND_SLOTS", "TOPDOWN.BAD_SPEC_SLOTS", "TOPDOWN.BR_MISPREDICT_SLOTS",
           "TOPDOWN.MEMORY_BOUND_SLOTS"]
MODIFIERS = {"c": "cmask", "u": "umask", "e": "edge", "i": "inv"}
MSRS = {0x1A6: "offcore_rsp", 0x1A7: "offcore_rsp", 0x3F7: "frontend", 0x3F6: "ldlat"}


def number(text):
    return int(text.split(",")[0], 0)


def encoding(name, events):
    """The terms that perf_event_open takes; `-` where nothing counts it."""
    base, *modifiers = name.split(":")
    if base.startswith("perf_metrics."):
        return f"event=0x0,umask={0x80 + PERF_METRICS.index(base.split('.')[1]):#x}"
    if "retire_latency" in modifiers:
        return "-"
    event = events.get(base)
    if base in FIXED:
        terms = dict(term.split("=") for term in FIXED[base].split(","))
    elif event is None:
        sys.exit(f"no event {base}")
    else:
        terms = {"event": f"{number(event['EventCode']):#x}", "umask": f"{number(event['UMask']):#x}"}
        for key, term in (("CounterMask", "cmask"), ("Invert", "inv"), ("EdgeDetect", "edge"), ("AnyThread", "any")):
            if number(event.get(key) or "0"):
                terms[term] = f"{number(event[key]):#x}"
        if number(event.get("MSRIndex") or "0"):
            terms[MSRS[number(event["MSRIndex"])]] = f"{number(event['MSRValue']):#x}"
    for modifier in modifiers:
        if modifier.startswith("ocr_msr_val="):
            terms["offcore_rsp"] = modifier.split("=")[1]
        elif modifier != "perf_metrics":
            terms[MODIFIERS[modifier[0]]] = f"{int(modifier[1:], 0):#x}"
    return ",".join("=".join(term) for term in terms.items())


def plain(formula):
    """Without the prefix of names, and with one space between words."""
    formula = " ".join(formula.split()).replace("tma_", "")
    return formula.replace("( ", "(").replace(" )", ")").replace("4k_aliasing", "aliasing_4k")


def key(metric):
    return plain(metric["MetricName"].lower())


def threshold(metric):
    text = re.sub(r"metric_TMA_\.*(\w+)\(%\)", lambda name: name[1].lower(), metric["Threshold"]["BaseFormula"])
    return plain(text)


def parent(metric, levels):
    """The node one level higher that the threshold names; else what the table says."""
    above = [word for word in WORD.findall(threshold(metric)) if levels.get(word) == metric["Level"] - 1]
    return above[0] if above else metric["ParentCategory"].lower()


def tables(folder, name, perfmon):
    metrics = json.loads((perfmon / folder / "metrics" / f"{name}_metrics.json").read_text())["Metrics"]
    metrics = [metric for metric in metrics if metric.get("Category") == "TMA"]
    by_name = {key(metric): metric for metric in metrics}
    events = json.loads((perfmon / folder / "events" / f"{name}_core.json").read_text())["Events"]
    events = {event["EventName"].lower(): event for event in events}
    nodes = [metric for metric in metrics if metric["Level"] <= LEVELS and metric.get("Threshold")
             and (metric.get("ParentCategory") or metric["MetricName"] in TOP)]
    levels = {key(node): node["Level"] for node in nodes}
    lines = []
    for node in nodes:
        above = "-" if node["MetricName"] in TOP else parent(node, levels)
        of = OF.get(node["CountDomain"].split("_")[0], "cycles")
        if node["CountDomain"].endswith(("_Estimated", "_Calculated")):
            of += ", modelled"
        lines.append(("node", key(node), above, of, threshold(node), plain(node["BaseFormula"])))
    seen, left, counted = set(), list(levels), []
    while left:
        one = left.pop(0)
        if one in seen:
            continue
        seen.add(one)
        formula = plain(by_name[one]["BaseFormula"])
        if one not in levels:
            lines.append(("value", one, formula))
        for word in WORD.findall(formula):
            if word in by_name:
                left.append(word)
            elif "." in word:
                counted.append(word)
    for name in dict.fromkeys(counted):
        lines.append(("event", name, encoding(name, events)))
    if any(name.startswith("perf_metrics.") for name in counted):
        taken = set()
        for name in map(str.lower, SAMPLED):
            terms = encoding(name, events) if name in events else None
            if terms and terms not in taken:
                taken.add(terms)
                lines.append(("sampled", name, terms))
    return lines


def main():
    perfmon = Path(sys.argv[1])
    mapping = (perfmon / "mapfile.csv").read_text().splitlines()
    print("# The top-down tree of Intel's cores. Made by generate.py; not to be edited. Fields are separated by tabs:")
    print("#   cpu LETTER NAME MODELS, then lines for the CPUs with these LETTERS:")
    print("#   node LETTERS NAME PARENT SHARE-OF THRESHOLD FORMULA; value LETTERS NAME FORMULA; event LETTERS NAME TERMS;")
    print("#   sampled LETTERS NAME TERMS: takes the place of a part of PERF_METRICS where events are sampled")
    print("#   MODELS are FAMILY-MODEL or FAMILY-MODEL-[STEPPINGS], in hexadecimal, with spaces between them.")
    print("# From https://github.com/intel/perfmon, under this licence:\n#")
    for line in (perfmon / "LICENSE").read_text().strip().splitlines():
        print(f"# {line}".rstrip())
    letters, order = {}, []
    for letter, folder, name in CPUS:
        models = [row.split(",")[0].removeprefix("GenuineIntel-") for row in mapping
                  if f"/{folder}/events/{name}_core.json" in row]
        print("cpu", letter, folder, " ".join(models), sep="\t")
        after = -1
        for line in tables(folder, name, perfmon):
            if line in letters:
                letters[line] += letter
                after = order.index(line)
            else:
                letters[line] = letter
                after += 1
                order.insert(after, line)
    for line in order:
        print(line[0], letters[line], *line[1:], sep="\t")


main()
