#!/usr/bin/env python3
"""Makes intel.tsv from Intel's public event and metric tables: generate.py PERFMON > intel.tsv
And the names of all events of cores, for crates/machine/src:
generate.py PERFMON events > intel_events.tsv, generate.py LINUX amd > amd_events.tsv, generate.py DATA arm TELEMETRY > arm_events.tsv

PERFMON is a checkout of https://github.com/intel/perfmon (BSD-3-Clause; its notice is carried over). Only the
levels 1 to 4 of the top-down tree are kept, with the values and events that their formulas need; of efficient cores the three levels of
E-core_TMA_Metrics.csv. LINUX is a kernel's source tree, DATA a checkout of https://github.com/ARM-software/data and TELEMETRY one of Arm's
Telemetry Solution (both Apache-2.0): of these only names and codes are kept. What not: uncore events.
"""

import csv
import json
import re
import string
import sys
from pathlib import Path

LEVELS = 4
# Letter, name (and folder), start of the names of its files.
CPUS = [
    ("a", "HSW", "haswell"), ("b", "HSX", "haswellx"), ("c", "BDW", "broadwell"), ("d", "BDX", "broadwellx"),
    ("e", "SKL", "skylake"), ("f", "SKX", "skylakex"), ("g", "CLX", "cascadelakex"), ("h", "ICL", "icelake"),
    ("i", "TGL", "tigerlake"), ("j", "RKL", "rocketlake"), ("k", "ICX", "icelakex"), ("l", "SPR", "sapphirerapids"),
    ("m", "EMR", "emeraldrapids"), ("n", "GNR", "graniterapids"),
]
# Cores of one kind of a hybrid: letter, name, folder, start of the file of events and of that of metrics, PMU.
PERFORMANCE_CORES = [
    ("o", "ADL", "alderlake_goldencove", "alderlake_metrics_goldencove_core"),
    ("p", "MTL", "meteorlake_redwoodcove", "meteorlake_metrics_redwoodcove_core"),
    ("q", "LNL", "lunarlake_lioncove", "lunarlake_metrics_lioncove_core"),
    ("r", "ARL", "arrowlake_lioncove", "arrowlake_metrics_lioncove_core"),
]
# Efficient cores: letter, folder, start of the file of events, column of the table, whether others are next to them.
EFFICIENT_CORES = [
    ("s", "ADL", "alderlake_gracemont", "GRT", True), ("t", "MTL", "meteorlake_crestmont", "CMT", True),
    ("u", "LNL", "lunarlake_skymont", "LNL-SKT", True), ("v", "ARL", "arrowlake_skymont", "ARL-SKT", True),
    ("w", "SRF", "sierraforest", "CMT", False), ("x", "GRR", "grandridge", "CMT", False),
    ("y", "ADL-N", "alderlake_gracemont", "GRT", False),
]
TOP = ("Frontend_Bound", "Bad_Speculation", "Backend_Bound", "Retiring")
OF = {"Slots": "slots", "Uops": "uops"}
WORD = re.compile(r"[A-Za-z_][\w.:]*(?:=0x[0-9a-f]+)?")
# What the kernel wants for counters that count one thing only (tools/perf/pmu-events, "fixed counters").
FIXED = {
    "inst_retired.any": "event=0xc0",
    "cpu_clk_unhalted.thread": "event=0x3c",
    "cpu_clk_unhalted.thread_any": "event=0x3c,any=0x1",
    "cpu_clk_unhalted.core": "event=0x3c",
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
# Cores of AMD: letter, folder, models (arch/x86/kernel/cpu/amd.c, bsp_init_amd).
AMD = [
    ("a", "amdzen1", "17-x 17-1x 17-2x 17-5x"), ("b", "amdzen2", "17-3x 17-4x 17-6x 17-7x 17-9x 17-Ax"),
    ("c", "amdzen3", "19-x 19-2x 19-4x 19-5x"), ("d", "amdzen4", "19-1x 19-6x 19-7x 19-8x 19-9x 19-Ax"),
    ("e", "amdzen5", "1A-x 1A-1x 1A-2x 1A-4x 1A-6x 1A-7x"),
]
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
        elif modifier.startswith("eq"):
            terms["eq"] = f"{int(modifier[2:], 0):#x}"
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


def events_of(perfmon, folder, name):
    events = json.loads((perfmon / folder / "events" / f"{name}_core.json").read_text())["Events"]
    return {event["EventName"].lower(): event for event in events}


def efficient(folder, name, column, perfmon):
    """The tree of efficient cores: formulas by columns of cores, thresholds as parts of 1, where P is the parent's condition."""
    rows = list(csv.reader((perfmon / "E-core_TMA_Metrics.csv").read_text(encoding="utf-8-sig").splitlines()))
    head = next(row for row in rows if row[0] == "Key")
    at, threshold_at = head.index(column), head.index("Threshold")
    aux = {row[1]: row[at] for row in rows if row[0] == "Aux"}
    tree = [row for row in rows if row[0] in ("FE", "BAD", "BE", "RET")]
    names = {cell: cell.lower() for row in tree for cell in row[1:4] if cell}

    def formula(text):
        while "#" in text:
            text = re.sub(r"#\w+", lambda word: f"({aux[word[0]]})", text)
        return plain(WORD.sub(lambda word: names.get(word[0], word[0].lower()), text))

    events = events_of(perfmon, folder, name)
    path, conditions, lines, counted = [None] * 3, [None] * 3, [], []
    for row in tree:
        level = next(level for level in range(3) if row[1 + level])
        path[level] = names[row[1 + level]]
        limit = round(100 * float(re.match(r">\s*([0-9.]+)", row[threshold_at])[1]), 3)
        own = f"({path[level]} > {limit:g})"
        conditions[level] = f"{own} & {conditions[level - 1]}" if "P" in row[threshold_at] else own
        text = formula(row[at])
        lines.append(("node", path[level], path[level - 1] if level else "-", "slots", conditions[level], text))
        counted += [word for word in WORD.findall(text) if "." in word]
    for event in dict.fromkeys(counted):
        lines.append(("event", event, encoding(event, events)))
    return lines


def tables(folder, name, metrics_file, perfmon):
    metrics = json.loads((perfmon / folder / "metrics" / f"{metrics_file}.json").read_text())["Metrics"]
    metrics = [metric for metric in metrics if metric.get("Category") == "TMA"]
    by_name = {key(metric): metric for metric in metrics}
    events = events_of(perfmon, folder, name)
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


def licence(perfmon):
    print("# From https://github.com/intel/perfmon, under this licence:\n#")
    for line in (perfmon / "LICENSE").read_text().strip().splitlines():
        print(f"# {line}".rstrip())


def head_of_names(maker, models):
    print(f"# Names of the events of {maker} cores. Made by crates/analysis/src/uarch/generate.py; not to be edited. Tabs between fields:")
    print("#   processor LETTER MODELS, and the PMU of one of a hybrid's kinds of cores; then LETTERS NAME TERMS for the CPUs with these LETTERS.")
    print(f"#   MODELS are {models}, with spaces between them.")


def print_names(letters):
    for (name, terms), those in sorted(letters.items()):
        print(those, name, terms, sep="\t")


def event_names():
    """Events of cores by name, those of all processors together: most are alike on several. Without those of offcore responses, 3,400
    of 5,500: what these say is in loads and stores."""
    perfmon = Path(sys.argv[1])
    files = {}
    for row in (perfmon / "mapfile.csv").read_text().splitlines()[1:]:
        model, _, file, kind, *more = row.split(",")
        if kind in ("core", "hybridcore") and model.startswith("GenuineIntel-"):
            pmu = {"Atom": "cpu_atom", "Core": "cpu_core"}.get(more[-1], "cpu_core") if kind == "hybridcore" else ""
            files.setdefault((file, pmu), []).append(model.removeprefix("GenuineIntel-"))
    head_of_names("Intel's", "FAMILY-MODEL or FAMILY-MODEL-[STEPPINGS], in hexadecimal")
    licence(perfmon)
    letters = {}
    for letter, ((file, pmu), models) in zip(string.ascii_letters + string.digits, files.items()):
        print("processor", letter, " ".join(models), *([pmu] if pmu else []), sep="\t")
        events = json.loads((perfmon / file.lstrip("/")).read_text())["Events"]
        for event in events:
            name = event["EventName"].lower()
            msr = number(event.get("MSRIndex") or "0")
            is_offcore = name.startswith(("ocr.", "offcore_response"))
            if event.get("Deprecated") == "1" or is_offcore or msr and msr not in MSRS:
                continue
            line = (name, encoding(name, {name: event}))
            if letter not in letters.setdefault(line, ""):
                letters[line] += letter
    print_names(letters)


def amd_names():
    head_of_names("AMD's", "FAMILY-MODEL in hexadecimal, where x is any digit")
    print("# Names and codes from AMD's Processor Programming References (54945, 55803, 55898, 55901, 57238), as Linux 6.12 has them in")
    print("# tools/perf/pmu-events/arch/x86/amdzen1 to amdzen5. MODELS from arch/x86/kernel/cpu/amd.c.")
    letters = {}
    for letter, folder, models in AMD:
        print("processor", letter, models, sep="\t")
        for file in sorted((Path(sys.argv[1]) / "tools/perf/pmu-events/arch/x86" / folder).glob("*.json")):
            for event in json.loads(file.read_text()):
                if "EventName" in event and "Unit" not in event and event.get("Deprecated") != "1":
                    mask = number(event.get("UMask", "0"))
                    terms = f"event={number(event['EventCode']):#x}" + (f",umask={mask:#x}" if mask else "")
                    letters.setdefault((event["EventName"].lower(), terms), "")
                    letters[event["EventName"].lower(), terms] += letter
    print_names(letters)


def arm_names():
    """Of both tables of Arm: that of its Telemetry Solution also has the events of one design only."""
    data, telemetry = Path(sys.argv[1]), Path(sys.argv[3])
    head_of_names("Arm's", "names of cores (MIDR_EL1)")
    print("# Names and codes from https://github.com/ARM-software/data (pmu) and, of Neoverse, also from Arm's Telemetry Solution")
    print("# (data/pmu/cpu/neoverse); both Apache License, Version 2.0.")
    cores = {}
    for file in sorted((data / "pmu").glob("*.json")):
        core = json.loads(file.read_text())
        # Of 64 bits, for applications, and with a table.
        if core.get("architecture", "").startswith(("armv8", "armv9")) and re.match(r"(cortex-[ax]|neoverse)", file.stem):
            events = {event["name"].lower(): event["code"] for event in core["events"] if "name" in event}
            if events:
                cores[core["cpu"].replace(" ", "-")] = events
    for file in sorted((telemetry / "data/pmu/cpu/neoverse").glob("neoverse-*.json")):
        table = json.loads(file.read_text())
        # Files of earlier revisions hold the name of another.
        if isinstance(table, dict) and "r0p" not in file.stem:
            core = cores.setdefault(table["product_configuration"]["product_name"].replace(" ", "-"), {})
            for name, event in table["events"].items():
                if core.setdefault(name.lower(), number(event["code"])) != number(event["code"]):
                    sys.exit(f"{file}: {name} has two codes")
    letters = {}
    for letter, core in zip(string.ascii_letters + string.digits, sorted(cores)):
        print("processor", letter, core, sep="\t")
        for name, code in cores[core].items():
            letters.setdefault((name, f"event={code:#x}"), "")
            letters[name, f"event={code:#x}"] += letter
    print_names(letters)


def main():
    perfmon = Path(sys.argv[1])
    mapping = (perfmon / "mapfile.csv").read_text().splitlines()
    print("# The top-down tree of Intel's cores. Made by generate.py; not to be edited. Fields are separated by tabs:")
    print("#   cpu LETTER NAME MODELS, and the PMU of one of a hybrid's kinds of cores; then lines for the CPUs with these LETTERS:")
    print("#   node LETTERS NAME PARENT SHARE-OF THRESHOLD FORMULA; value LETTERS NAME FORMULA; event LETTERS NAME TERMS;")
    print("#   sampled LETTERS NAME TERMS: takes the place of a part of PERF_METRICS where events are sampled")
    print("#   MODELS are FAMILY-MODEL or FAMILY-MODEL-[STEPPINGS], in hexadecimal, with spaces between them.")
    licence(perfmon)
    letters, order = {}, []
    all_cpus = [(letter, folder, folder, name, [], tables(folder, name, f"{name}_metrics", perfmon))
                for letter, folder, name in CPUS]
    all_cpus += [(letter, folder, f"{folder}-P", name, ["cpu_core"], tables(folder, name, metrics, perfmon))
                 for letter, folder, name, metrics in PERFORMANCE_CORES]
    all_cpus += [(letter, short.split("-")[0], f"{short}-E" if hybrid else short, name, ["cpu_atom"] if hybrid else [],
                  efficient(short.split("-")[0], name, column, perfmon))
                 for letter, short, name, column, hybrid in EFFICIENT_CORES]
    for letter, folder, shown, name, pmu, lines in all_cpus:
        kind = ",hybridcore," if pmu else ",core,"
        models = [row.split(",")[0].removeprefix("GenuineIntel-") for row in mapping
                  if f"/{folder}/events/{name}_core.json" in row and kind in row]
        print("cpu", letter, shown, " ".join(models), *pmu, sep="\t")
        after = -1
        for line in lines:
            if line in letters:
                letters[line] += letter
                after = order.index(line)
            else:
                letters[line] = letter
                after += 1
                order.insert(after, line)
    for line in order:
        print(line[0], letters[line], *line[1:], sep="\t")


{"events": event_names, "amd": amd_names, "arm": arm_names}.get("".join(sys.argv[2:3]), main)()
