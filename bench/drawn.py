#!/usr/bin/env python3
"""Fathom's estimates on programs drawn anew, so that none can be tuned for: coverage, width, bias, interval score, class.

A seed gives any number of programs (drawn/generate.py). Each is counted to the last access by callgrind (drawn/count.py;
kept in drawn/build by content), then runs once under `fathom run`. First all are counted, two at a time, then all
are measured, one at a time. Scores: drawn/score.py.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import random
import re
import shutil
import subprocess
import sys
import time

import common

sys.path.insert(0, os.path.join(common.ROOT, "bench", "drawn"))
import count  # noqa: E402
import generate  # noqa: E402
import score  # noqa: E402
import truth  # noqa: E402

BUILD = os.path.join(generate.HERE, "build")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, help="of the programs; without it a new one, which is printed")
    parser.add_argument("--count", type=int, default=100, help="programs (100)")
    parser.add_argument("--index", type=int, action="append", help="only this program of the seed (repeatable)")
    parser.add_argument("--only", choices=sorted(generate.FAMILIES), help="phases of this family only")
    parser.add_argument("--seconds-limit", type=float, default=5.0, help="longest time of a program alone (5)")
    parser.add_argument("--fathom", type=os.path.abspath, default=common.FATHOM, help="the program to test")
    parser.add_argument("-k", "--knob", action="append", default=[], help="another knob for fathom")
    parser.add_argument("--keep", type=os.path.abspath, metavar="DIR", help="leave sources, binaries and results here")
    parser.add_argument("--again", action="store_true", help="judge the results that --keep left, with this fathom's reports")
    parser.add_argument("--repeat-truth", action="store_true", help="count anew, and say how linear the counts are")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count()), help="programs counted at a time (2)")
    parser.add_argument("--json", type=os.path.abspath, metavar="FILE", help="also write all rows here")
    parser.add_argument("--store", action="store_true", help="keep the result in bench/results")
    options = parser.parse_args()
    if options.seed is None:
        options.seed = random.SystemRandom().randrange(1 << 31)
    if options.again and not options.keep:
        parser.error("--again needs the --keep DIR of the run whose results it judges")
    if options.count < 1 or options.jobs < 1 or options.seconds_limit <= 0:
        parser.error("--count, --jobs and --seconds-limit are above 0")
    return options


def geometries(options):
    """What callgrind's caches are: sizes that the processor names, and that latency shows; of the last level also half of that."""
    machine = json.loads(common.run([options.fathom, "machine", "--format", "json"]))
    named = generate.caches_of_machine()
    ways = {cache["level"]: cache["ways"] for cache in machine["host"]["caches"] if cache["kind"] != "instruction"}
    seen = {cache["level"]: int(cache["bytes"]["value"]) for cache in machine["calibration"]["effective_caches"]}
    return {"l1": count.geometry(named.l1, ways.get(1, 8)), "l2": count.geometry(named.l2, ways.get(2, 8)),
            "l2 seen": count.geometry(min(named.l2, seen.get(2, named.l2)), ways.get(2, 8)),
            "seen": count.geometry(seen.get(3, named.l3), ways.get(3, 16)), "named": count.geometry(named.l3, ways.get(3, 16)),
            "half": count.geometry(min(seen.get(3, named.l3), named.l3) // 2, ways.get(3, 16))}


def kept(folder):
    """What `measured` left in a folder."""
    try:
        with open(os.path.join(folder, "run.json")) as file:
            return json.load(file)
    except OSError:
        return "not kept"


def prepared(drawn, folder, caches, options):
    """(counts or None, sentence why not). Builds the program and counts its accesses."""
    generate.write(drawn, folder)
    missing = [tool for tool in ("valgrind", "objdump", drawn.compiler) if not shutil.which(tool)]
    if missing:
        return None, f"skipped: {', '.join(missing)} not installed: apt-get install valgrind binutils gcc g++ clang gfortran"
    for command in generate.build_commands(drawn, folder):
        result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode != 0:
            return None, f"{' '.join(command)} failed:\n{result.stderr[-2000:]}"
    binary, phases = os.path.join(folder, "program"), len(drawn.phases)
    store = os.path.join(folder if options.repeat_truth else BUILD, "counts")
    try:
        counted = count.count(binary, phases, caches, store)
        if options.repeat_truth:
            other = count.count(binary, phases, caches, store, count.REPEATS + 2)
            print(f"{drawn.name}: {linearity(counted, other, phases)}", flush=True)
    except (count.CountError, OSError, KeyError, ValueError, StopIteration) as error:
        return None, f"not counted: {error!r}"
    return counted, ""


def linearity(counted, other, phases):
    """How much 40 repeats of each phase differ by two ways of counting."""
    first, second = (count.truth_at(by, [40] * phases) for by in (counted, other))
    parts = []
    for key in ("loads", "stores", "read", "write"):
        if first[key] and second[key] and max(second[key]) > score.SLACK[key]:
            parts.append(f"{key} {100 * max(abs(a / b - 1) for a, b in zip(first[key], second[key]) if b):.2f} %")
    return "40 repeats counted another way differ by " + ", ".join(parts)


def repeats_for(binary, drawn, options):
    """Repeats of each phase so that the program takes a drawn time of half a second to the limit."""
    rng = random.Random(f"time/{drawn.name}")
    wanted = 0.5 * (max(0.5, options.seconds_limit) / 0.5) ** rng.random()
    shares = [rng.uniform(0.3, 1.0) for _ in drawn.phases]
    repeats = [4] * len(drawn.phases)
    # Twice: the first repeats find cold caches, and the machine may just have been busy.
    for part in (0.2, 1.0):
        stated = json.loads(common.run([binary, *map(str, repeats)]))
        setup = max(0.0, stated["total"] - sum(stated["seconds"]))
        left = part * max(0.3, wanted - setup)
        repeats = [max(4, round(left * share / sum(shares) / (max(seconds, 1e-6) / tries)))
                   for share, seconds, tries in zip(shares, stated["seconds"], repeats)]
    return repeats


def admissible(drawn, stated):
    """Classes of the phases that take a quarter of the time or more; setting up is core-bound work of the kernel and ours."""
    total = stated["total"]
    parts = [(seconds, phase.classes) for seconds, phase in zip(stated["seconds"], drawn.phases)]
    parts.append((total - sum(stated["seconds"]), (generate.families.CORE, generate.families.BANDWIDTH)))
    return {label for seconds, classes in parts if seconds >= 0.25 * total for label in classes}


def measured(drawn, folder, counted, options):
    """Runs a program. What is known beside its result, or a sentence."""
    binary = os.path.join(folder, "program")
    repeats = repeats_for(binary, drawn, options)
    command = [binary, *map(str, repeats)]
    stolen = common.steal_and_load()[0]
    begun = time.monotonic()
    knobs = [word for knob in options.knob for word in ("-k", knob)]
    result = os.path.join(folder, "result")
    ran = subprocess.run([options.fathom, "run", "-q", *knobs, "-r", result, "--", *command], capture_output=True, text=True)
    took = time.monotonic() - begun
    if ran.returncode != 0:
        return f"fathom run ended with {ran.returncode}: {ran.stderr[-400:]}"
    return {"known": count.truth_at(counted, repeats), "stated": truth.last_line(ran.stdout), "took": took,
            "stolen": common.steal_and_load()[0] - stolen, "repeats": repeats, "command": command}


def reported(view, result, options, *more):
    """A view of a result as JSON: the process that ended."""
    return subprocess.run([options.fathom, "report", view, "--format", "json", *more, "-r", result], capture_output=True, text=True)


def judged(drawn, folder, run, options):
    """Everything that the scores need of a program that ran: dictionary, or a sentence."""
    result, known, stated = os.path.join(folder, "result"), run["known"], run["stated"]
    told = reported("summary", result, options)
    if told.returncode != 0:
        return f"fathom report ended with {told.returncode}: {told.stderr[-400:]}"
    summary = json.loads(told.stdout)
    found = truth.estimates_of(summary)
    for level in truth.LEVELS:
        found[f"{level} share"] = truth.scaled(summary["levels"].get(level), 1)
    seconds = summary["elapsed"]["value"]
    known["bandwidth"] = tuple(1e-9 * value / seconds for value in known["dram"])
    found["bandwidth"] = truth.scaled(summary["dram_bandwidth"]["average"], 1)
    families = tuple(sorted({phase.family for phase in drawn.phases}))
    rows = [score.Row(drawn.name, families, circumstances(drawn, seconds), quantity, known[quantity], found.get(quantity),
                      slack_of(quantity, seconds))
            for quantity in score.QUANTITIES]
    rows += [score.Row(drawn.name, families, circumstances(drawn, seconds), score.PASSES, (truth, truth), found, 0)
             for truth, found in passes(drawn, result, run["repeats"], options)]
    absent = None if found["loads"] else re.sub(r"\d+", "N", summary["loads"].get("note") or "no reason given")
    return {"drawn": drawn, "rows": rows, "absent": absent, "class": "mixed" if summary["classification_certainty"] == "mixed" else found["class"],
            "certainty": summary["classification_certainty"], "admissible": admissible(drawn, stated),
            "elapsed": seconds, **{key: run[key] for key in ("took", "stolen", "repeats", "command")}}


def passes(drawn, result, repeats, options):
    """[(passes, (value, low, high))] of the loops that repeat phases, where `report pace` knows them."""
    told = reported("pace", result, options, "--limit", "1000")
    if told.returncode != 0:
        return []
    loops = [row for row in json.loads(told.stdout)["rows"] if row["depth"] == 0]
    starts, parallel = [], []
    for number, line in enumerate(drawn.source.splitlines(), 1):
        if repeated := re.search(r"repeat < drawn_repeats\[(\d+)\]", line):
            starts.append((number, int(repeated[1])))
        if shared := re.search(r"drawn_parallel\((\d+), (\d+),", line):
            parallel.append((repeats[int(shared[1])], int(shared[2])))
    # Where main has other loops too, each is of the phase that begins last before it.
    wanted = [(repeats[phase], [row for row in loops if row["function"] == "main" and row["line"] and first <= row["line"] < behind])
              for (first, phase), (behind, _) in zip(starts, [*starts[1:], (float("inf"), 0)])]
    for function, count in (("drawn_parallel", sum(repeat for repeat, _ in parallel)),
                            ("other_thread", sum(repeat * (threads - 1) for repeat, threads in parallel))):
        wanted.append((count, [row for row in loops if row["function"] == function]))
    found = []
    for count, rows in wanted:
        known = [truth.scaled(row["iterations"], 1) for row in rows]
        # Of a loop in several copies each must be known.
        if known and all(known):
            value, low, high = (sum(ends) for ends in zip(*known))
            found.append((count, (value, low, high)))
    return found


def circumstances(drawn, seconds):
    return (f"{len(drawn.phases)} phase{'s' if len(drawn.phases) > 1 else ''}", f"with {drawn.compiler}", f"with {drawn.flags[0]}",
            "under 1 s" if seconds < 1 else "1 to 2 s" if seconds < 2 else "2 s and more",
            "threads" if any(phase.threads > 1 for phase in drawn.phases) else "one thread",
            "a phase inlined into main" if "always_inline" in drawn.source else "no phase inlined into main")


def slack_of(quantity, seconds):
    if quantity in score.SHARES:
        return score.SHARE_SLACK
    return 1e-9 * score.SLACK["dram"] / seconds if quantity == "bandwidth" else score.SLACK[quantity]


def one_line(program):
    """What a run of the bench prints of each program."""
    errors = []
    for row in program["rows"]:
        if row.quantity in ("read", "write", "loads", "stores") and row.found and row.known and row.scale:
            errors.append(f"{row.quantity} {100 * row.error:+.0f} %{'' if row.covered else ' MISSED'}")
    label = verdict(program)
    return (f"{program['drawn'].name}: {program['elapsed']:.1f} s; {', '.join(errors)}; {program['class']} {label}; "
            + "; ".join(phase.text() for phase in program["drawn"].phases))


def verdict(program):
    if program["class"] == "none":
        return "undecided"
    # Both memory and instructions have a good part: true where phases of both kinds have a quarter of the time.
    if program["class"] == "mixed":
        both = generate.families.CORE in program["admissible"] and len(program["admissible"]) > 1
        return "right" if both else "wrong"
    return "right" if program["class"] in program["admissible"] else "wrong"


def certainties(programs):
    """Of each certainty with a class: how many are right, of how many."""
    for certainty in ("is", "probably", "mixed"):
        verdicts = [verdict(program) for program in programs if program["certainty"] == certainty and program["class"] != "none"]
        yield certainty, verdicts.count("right"), len(verdicts)


def report(programs, problems, options, begun, stolen):
    rows = [row for program in programs for row in program["rows"]]
    by_quantity, by_family, by_circumstance = score.tables(rows)
    verdicts = [verdict(program) for program in programs]
    absent = collections.Counter(program["absent"] for program in programs if program["absent"])
    lines = ["# Estimates on drawn programs", "", common.machine(), "",
             f"Seed {options.seed}, {len(programs)} of {len(programs) + len(problems)} programs"
             f"{', family ' + options.only if options.only else ''}, one run each; "
             f"load average at the end {os.getloadavg()[1]:.1f}, {stolen:.1f} s of CPU stolen by the hypervisor, "
             f"{(time.monotonic() - begun) / 60:.0f} minutes.", "",
             *(f"{times} have no estimate of loads: {why}\n" for why, times in absent.most_common()),
             "Class: " + ", ".join(f"{verdicts.count(word)} {word}" for word in ("right", "undecided", "wrong")) + ". By certainty: "
             + "; ".join(f"{certainty} {right} of {of}" for certainty, right, of in certainties(programs)) + " right.", "",
             *truth.aligned(by_quantity), "", "Bytes and counts by family of the program's phases:", "",
             *truth.aligned(by_family), "", "And by circumstance:", "", *truth.aligned(by_circumstance), "",
             "The ten worst programs, by the interval score of their worst figure "
             f"(`bench/drawn.py --seed {options.seed} --index K --keep DIR` makes one again):", "",
             *truth.aligned(score.worst(rows)), ""]
    wrong = [program for program in programs if verdict(program) == "wrong"]
    if wrong:
        lines += ["Wrong classes:", ""]
        lines += [f"- {program['drawn'].name}: {program['class']}, not {' or '.join(sorted(program['admissible']))}: "
                  + "; ".join(phase.text() for phase in program["drawn"].phases) for program in wrong]
        lines.append("")
    lines += [f"- {problem}" for problem in problems]
    return "\n".join(lines).rstrip() + "\n"


def all_counted(chosen, folders, caches, options, begun):
    """Of each program what `prepared` says."""
    counts = []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for answer in pool.map(lambda pair: prepared(*pair, caches, options), zip(chosen, folders)):
            counts.append(answer)
            if len(counts) % 10 == 0:
                print(f"{len(counts)} of {len(chosen)} counted after {time.monotonic() - begun:.0f} s", flush=True)
    print(f"counted in {time.monotonic() - begun:.0f} s", flush=True)
    return counts


def main():
    options = arguments()
    begun, stolen = time.monotonic(), common.steal_and_load()[0]
    print(f"seed {options.seed}", flush=True)
    caches, names = geometries(options), generate.caches_of_machine()
    chosen = [generate.program(options.seed, index, names, options.only) for index in options.index or range(options.count)]
    with common.scratch() as scratch:
        base = options.keep or scratch
        folders = [os.path.join(base, f"{drawn.index}") for drawn in chosen]
        counts = [(None, "")] * len(chosen) if options.again else all_counted(chosen, folders, caches, options, begun)
        programs, problems = [], []
        for drawn, folder, (counted, why) in zip(chosen, folders, counts):
            run = kept(folder) if options.again else measured(drawn, folder, counted, options) if counted else why
            if options.keep and not options.again and isinstance(run, dict):
                with open(os.path.join(folder, "run.json"), "w") as file:
                    json.dump(run, file)
            outcome = judged(drawn, folder, run, options) if isinstance(run, dict) else run
            if isinstance(outcome, str):
                problems.append(f"{drawn.name}: {outcome}")
                print(problems[-1], flush=True)
            else:
                programs.append(outcome)
                print(one_line(outcome), flush=True)
            subprocess.run(["rm", "-rf", os.path.join(folder, "result")] if not options.keep else ["true"], check=True)
    if options.json:
        with open(options.json, "w") as file:
            json.dump([{**program, "drawn": program["drawn"]._asdict(), "admissible": sorted(program["admissible"]),
                        "rows": [row._asdict() for row in program["rows"]]} for program in programs], file, indent=1)
    text = report(programs, problems, options, begun, common.steal_and_load()[0] - stolen)
    print("\n" + text)
    if options.store:
        common.store("drawn", text)
    return 0 if programs else 1


if __name__ == "__main__":
    sys.exit(main())
