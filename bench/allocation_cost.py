#!/usr/bin/env python3
"""What recording heap blocks costs a program that does little else, beside heaptrack, valgrind's dhat and gperftools.

The program makes pairs of an allocation and a free from call stacks of 5 to 30 frames (`allocation_pairs.cpp`), or, deep, of
40 to 140, or in a heap of 2 M blocks, freed in another order. Each round runs every tool once, in an order that changes from round to round; the time is the program's own. Cost
is the time per pair less that of the same round alone: median and range over the rounds. dhat and gperftools get a fiftieth of the pairs.
memory-access records no accesses here, so that the figure is that of the library alone.
Beside it stands the CPU time of program and tool together, likewise per pair: what is left of it where every CPU is busy.
"""
import os
import random
import resource
import shutil
import statistics
import subprocess
import time

import common

GPERFTOOLS = "/usr/lib/x86_64-linux-gnu/libtcmalloc.so.4"
KNOBS = ["-k", "dram-bandwidth-limits=false"]
VARIANTS = {"1 thread": ["1"], "2 threads": ["2"], "deep, 1 thread": ["1", "deep"],
            "large heap, 1 thread": ["1", "heap"]}


def build(folder):
    program = os.path.join(folder, "allocation_pairs")
    source = os.path.join(common.ROOT, "bench", "allocation_pairs.cpp")
    subprocess.run(["g++", "-O2", "-g", "-fomit-frame-pointer", "-pthread", source, "-o", program], check=True)
    return program


def tools(folder):
    """Name: (what comes before the program, environment, share of the pairs, what it writes)."""
    def collect(*knobs, analysis="memory-consumption"):
        return [common.FATHOM, "collect", analysis, "-q", "-r", f"{folder}/out", *KNOBS, *knobs, "--"]
    found = {"alone": ([], {}, 1), "fathom, default": (collect(), {}, 1),
             "fathom, every block": (collect("-k", "stacks=all"), {}, 1),
             "fathom, memory-access": (collect("-k", "memory-tracing=false", analysis="memory-access"), {}, 1)}
    if shutil.which("heaptrack"):
        found["heaptrack"] = (["heaptrack", "-o", f"{folder}/out"], {}, 1)
    if shutil.which("valgrind"):
        found["dhat"] = (["valgrind", "-q", "--tool=dhat", f"--dhat-out-file={folder}/out"], {}, 50)
    if os.path.exists(GPERFTOOLS):
        found["gperftools"] = ([], {"LD_PRELOAD": GPERFTOOLS, "HEAPPROFILE": f"{folder}/out"}, 50)
    return found


def size(folder):
    return sum(os.path.getsize(os.path.join(at, name)) for at, _, names in os.walk(folder) for name in names)


def report(folder, tool):
    """Seconds and peak memory in MB of the report, or None."""
    command = {"heaptrack": ["heaptrack_print", f"{folder}/out.zst"],
               "fathom, every block": [common.FATHOM, "report", "allocations", "-r", f"{folder}/out"],
               "fathom, memory-access": [common.FATHOM, "report", "allocations", "-r", f"{folder}/out"],
               "fathom, default": [common.FATHOM, "report", "allocations", "-r", f"{folder}/out"]}.get(tool)
    if command is None:
        return None
    began = time.monotonic()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    return (time.monotonic() - began, usage.ru_maxrss / 1024) if status == 0 else None


def cpu_seconds():
    """CPU time of all children that ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def one(program, pairs, words, tool):
    """ns per pair, bytes written, the report's cost, ns of CPU time per pair of a thread."""
    with common.scratch() as folder:
        before, environment, share = tools(folder)[tool]
        cpu = cpu_seconds()
        text = common.run([*before, program, str(pairs // share), *words], {**os.environ, **environment})
        cpu = (cpu_seconds() - cpu) * 1e9 * share / pairs / int(words[0])
        per_pair = next(float(line.split()[1]) for line in text.splitlines() if line.startswith("ns_per_pair"))
        return per_pair, size(folder), report(folder, tool), cpu


def main():
    options = common.arguments()
    common.prepare()
    pairs, load = 20_000_000, os.getloadavg()[0]
    text = ["# Cost of recording heap blocks", "", common.machine(), "",
            f"{options.rounds} rounds of {pairs // 1_000_000} M pairs per thread; load average before: {load:.1f}.", ""]
    with common.scratch() as folder:
        program = build(folder)
        for variant, words in VARIANTS.items():
            seen = {}
            for number in range(options.rounds):
                order = list(tools(folder))
                random.Random(number).shuffle(order)
                for tool in order:
                    seen.setdefault(tool, []).append(one(program, pairs, words, tool))
            text += [f"## {variant}", "", "| tool | ns per pair | added | range | CPU added | file | report | its memory |", "|---|---|---|---|---|---|---|---|"]
            for tool, runs in seen.items():
                added = [run[0] - alone[0] for run, alone in zip(runs, seen["alone"])]
                cpu = statistics.median(run[3] - alone[3] for run, alone in zip(runs, seen["alone"]))
                row = [tool, f"{statistics.median(run[0] for run in runs):.0f}", f"{statistics.median(added):.0f}",
                       f"{min(added):.0f}..{max(added):.0f}", f"{cpu:.0f}",
                       f"{statistics.median(run[1] for run in runs) / 1e6:.2f} MB"]
                reports = [run[2] for run in runs if run[2]]
                row += [f"{statistics.median(r[0] for r in reports):.2f} s", f"{statistics.median(r[1] for r in reports):.0f} MB"] if reports else ["", ""]
                text.append("| " + " | ".join(row) + " |")
                print(text[-1], flush=True)
            text.append("")
    print("\n".join(text))
    if options.store:
        common.store("allocation-cost", "\n".join(text))


if __name__ == "__main__":
    main()
