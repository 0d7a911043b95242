#!/usr/bin/env python3
"""What the burst tracer costs at its default duty, in alternating pairs with the program alone, beside valgrind.

Each round runs every program alone and under `fathom collect memory-access`, in an order that changes from round to
round; the time under fathom is the program's own, from its start to its end, as the result has it (measuring the machine
before, core floors and writing the result after it are no slow-down of the program). Ratios are taken within a round. Beside them stands what fathom itself says:
`overhead` of the JSON summary. Valgrind's tools (lackey with every address, cachegrind) run the same programs on
smaller inputs, each beside the program alone on that input.
"""
import json
import os
import random
import shutil
import statistics
import subprocess
import time

import common

PROGRAMS = {
    # name: (command, the same on an input small enough for valgrind)
    "triad, 1 thread": ([f"{common.RECIPES}/stream", "--elements", "20000000", "--repeat", "8", "--threads", "1"],
                        ["--elements", "1000000", "--repeat", "2", "--threads", "1"]),
    "triad, 2 threads": ([f"{common.RECIPES}/stream", "--elements", "20000000", "--repeat", "12", "--threads", "2"],
                         ["--elements", "1000000", "--repeat", "2", "--threads", "2"]),
    "multiply1, 2 threads": ([f"{common.RECIPES}/multiply1", "--size", "1024", "--threads", "2"],
                             ["--size", "192", "--threads", "2"]),
    "multiply2, 2 threads": ([f"{common.RECIPES}/multiply2", "--size", "2048", "--threads", "2"],
                             ["--size", "192", "--threads", "2"]),
    "chase 256 MB": ([f"{common.PROGRAMS}/access_patterns", "--chase", "4"], ["--chase", "1", "--megabytes", "8"]),
    "L1 loop": ([f"{common.PROGRAMS}/access_patterns", "--hits", "1500000"], ["--hits", "2000"]),
    "fib": ([f"{common.PROGRAMS}/fib", "--n", "41"], ["--n", "24"]),
    "exceptions, map": ([f"{common.PROGRAMS}/exceptions_map", "--rounds", "80000"], ["--rounds", "200"]),
    "qsort": ([f"{common.PROGRAMS}/sort_calls", "--rounds", "40"], ["--rounds", "1"]),
    "2 threads on 2 CPUs": ([f"{common.PROGRAMS}/self_check", "--rounds", "120"], ["--rounds", "1"]),
}
VALGRIND = {
    "lackey, every address": ["valgrind", "-q", "--tool=lackey", "--trace-mem=yes", "--log-file=/dev/null"],
    "cachegrind": ["valgrind", "-q", "--tool=cachegrind", "--cachegrind-out-file=/dev/null", "--log-file=/dev/null"],
}
FEWER_ROUNDS = 1  # of valgrind: its factor is not a matter of percents


def seconds(command):
    began = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.monotonic() - began


def under_fathom(command, folder):
    """(seconds of the program, the `overhead` of the summary: {part: value}) of one run."""
    result = os.path.join(folder, "result")
    seconds([common.FATHOM, "collect", "memory-access", "-q", "-k", "dram-bandwidth-limits=false", "-r", result, "--", *command])
    summary = json.loads(common.run([common.FATHOM, "report", "summary", "-r", result, "--format", "json"]))
    shutil.rmtree(result)
    return summary["elapsed"]["value"], exact_parts(summary)


def exact_parts(summary):
    """The place where the summary's own account of our cost is read: `overhead`, a metric or an object of them."""
    overhead = summary["overhead"]
    parts = {"overhead": overhead} if "value" in overhead else overhead
    return {name: part["value"] for name, part in parts.items()
            if isinstance(part, dict) and part.get("value") is not None and part.get("unit") == "percent"}


def with_interval(ratios):
    low, high = common.interval(ratios)
    return f"{statistics.median(ratios):.3f} ({low:.3f}..{high:.3f})"


def measure(name, rounds, folder):
    """A row of the first table."""
    command, _ = PROGRAMS[name]
    alone, under, parts = [], [], []
    for number in range(rounds):
        order = ["alone", "under"]
        random.Random(f"{name}/{number}").shuffle(order)
        for who in order:
            if who == "alone":
                alone.append(seconds(command))
            else:
                took, found = under_fathom(command, folder)
                under.append(took)
                parts.append(found)
    own = {part: statistics.median(found.get(part, 0) for found in parts) for part in parts[0]}
    said = ", ".join(f"{part} {value:.2f}" for part, value in own.items())
    total = own.get("total", sum(own.values()))
    return [name, f"{statistics.median(alone):.2f} s", with_interval([a / b for a, b in zip(under, alone)]),
            f"{total:.2f} %", said]


def measure_valgrind(name):
    """A row of the second table."""
    command, small = PROGRAMS[name]
    row = [name]
    ratios = {tool: [] for tool in VALGRIND}
    for _ in range(FEWER_ROUNDS):
        # Starts are taken off: valgrind's own is a second, and these inputs are small.
        alone = seconds([command[0], *small]) - seconds(["true"])
        for tool, prefix in VALGRIND.items():
            try:
                ratios[tool].append((seconds([*prefix, command[0], *small]) - seconds([*prefix, "true"])) / alone)
            except subprocess.CalledProcessError:
                pass  # an instruction that it does not know: AVX-512 in what was built for this machine
    return row + [f"{statistics.median(found):.0f}" if found else "it cannot run it" for found in ratios.values()]


def main():
    options = common.arguments()
    common.prepare()
    stolen_before, rows, slow = common.steal_and_load()[0], [], []
    with common.scratch() as folder:
        for name in PROGRAMS:
            rows.append(measure(name, options.rounds, folder))
            slow.append(measure_valgrind(name))
            print(" | ".join(rows[-1] + slow[-1][1:]), flush=True)
    text = ["# Cost of the burst tracer at its default duty", "", common.machine(), "",
            f"{options.rounds} alternating pairs, median and 95 % bootstrap interval of the ratios within a pair; "
            f"{common.steal_and_load()[0] - stolen_before:.1f} s of CPU stolen by the hypervisor meanwhile.", "",
            "| program | alone | under fathom / alone | sum of what fathom counts of itself | of that, percent |",
            "|---|---|---|---|---|"]
    text += ["| " + " | ".join(row) + " |" for row in rows]
    text += ["", f"Valgrind in the same minutes, on small inputs, as a multiple of the program alone (median of {FEWER_ROUNDS}):", "",
             "| program | " + " | ".join(VALGRIND) + " |", "|---|" + "---|" * len(VALGRIND)]
    text += ["| " + " | ".join(row) + " |" for row in slow]
    print("\n".join(text))
    if options.store:
        common.store("burst-cost", "\n".join(text) + "\n")


if __name__ == "__main__":
    main()
