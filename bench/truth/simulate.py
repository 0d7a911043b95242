#!/usr/bin/env python3
"""Exact traffic of the truth bench's programs, by a cache model over every access (cache_model.c); kept in simulated.json.

Each program runs twice, with few and with more repeats; the difference is one repeat's traffic, the rest is what it costs to
start. Caches: the effective sizes of `fathom machine --format json`, ways as the processor names them. The last-level
cache is also taken at half and at twice the size. `--check`: compares with the programs' own arithmetic, writes nothing.

    make -C bench/truth && bench/truth/simulate.py --fathom target/release/fathom [--only NAME]
"""
import argparse
import json
import os
import subprocess
import sys

import programs

L3_SIZES = ("half", "nominal", "double")


def geometry(fathom):
    """'BYTES,WAYS BYTES,WAYS BYTES,WAYS' of L1, L2 and L3."""
    said = subprocess.run([fathom, "machine", "--format", "json"], check=True, capture_output=True, text=True).stdout
    answer = json.loads(said)
    ways = {cache["level"]: cache["ways"] for cache in answer["host"]["caches"] if cache["kind"] != "instruction"}
    sizes = {cache["level"]: int(cache["bytes"]["value"]) for cache in answer["calibration"]["effective_caches"]}
    if sorted(sizes) != [1, 2, 3]:
        sys.exit(f"this model has three levels of caches; here are {sorted(sizes)}")
    return " ".join(f"{sizes[level]},{ways[level]}" for level in (1, 2, 3))


def counted(program, repeat, caches):
    """(what the model counted, what the program states) of one run."""
    result = subprocess.run(program.start(repeat, traced=True), capture_output=True, text=True,
                            env={**os.environ, "FATHOM_TRUTH_CACHES": caches})
    if result.returncode != 0:
        sys.exit(f"{program.name} failed ({result.returncode}):\n{result.stderr}")
    raw = json.loads(result.stderr.splitlines()[-1])
    flat = {key: raw[key] for key in ("loads", "stores", "l1", "l2")}
    for size, figures in zip(L3_SIZES, raw["by_l3_size"]):
        flat.update({f"{key} {size}": value for key, value in figures.items()})
    return flat, json.loads(result.stdout.splitlines()[-1])


def simulate(program, caches):
    """(figures as [fixed, per repeat], the program's own figures in the same form)."""
    few, more = program.simulate
    pairs = list(zip(counted(program, few, caches), counted(program, more, caches)))
    lines = []
    for first, second in pairs:
        line = {}
        for key, value in first.items():
            if isinstance(value, (int, float)) and key not in ("seconds", "gb_per_s", "repeat", "threads"):
                slope = (second[key] - value) / (more - few)
                line[key] = [value - slope * few, slope]
        lines.append(line)
    return lines


def compare(program, model, stated):
    """One line: what arithmetic says against what was counted, per repeat."""
    names = {"read_bytes": "read_bytes nominal", "written_bytes": "written_bytes nominal", "loads": "loads", "stores": "stores"}
    parts = []
    for key, modelled in names.items():
        if key in stated:
            says, counts = stated[key][1], model[modelled][1]
            ratio = f"{counts / says:.4f}" if says else f"{counts:.0f} for 0"
            parts.append(f"{key} {ratio}")
    print(f"{program.name}: counted / stated per repeat: {', '.join(parts)}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fathom", type=os.path.abspath, default=os.path.join(programs.HERE, "..", "..", "target", "release", "fathom"))
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="only this program (repeatable)")
    parser.add_argument("--check", action="store_true", help="compare with arithmetic only")
    options = parser.parse_args()
    caches = geometry(options.fathom)
    stored = programs.simulated() if os.path.exists(programs.SIMULATED) else {"caches": caches, "programs": {}}
    if stored["caches"] != caches:
        stored = {"caches": caches, "programs": {}}
    for program in programs.rows():
        if program.simulate is None or options.only and program.name not in options.only:
            continue
        model, stated = simulate(program, caches)
        compare(program, model, stated)
        stored["programs"][program.name] = {"command": program.command, "repeats": program.simulate, **model}
        if not options.check:
            with open(programs.SIMULATED, "w") as file:
                file.write(as_text(stored))


def as_text(stored):
    """One line per program, so that a change shows in a diff."""
    lines = [f'  {json.dumps(name)}: {json.dumps(figures)}' for name, figures in sorted(stored["programs"].items())]
    return f'{{"caches": {json.dumps(stored["caches"])}, "programs": {{\n' + ",\n".join(lines) + "\n}}\n"


if __name__ == "__main__":
    main()
