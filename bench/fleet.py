#!/usr/bin/env python3
"""A synthetic fleet: many results' files of a dataset from a few real results, and how long questions about them take.

fleet.py --fathom FATHOM --seeds DIR... [--sizes 100,1000,10000] [--engines duckdb,clickhouse,spark] [--work DIR] [--only-make]

Adds the seeds with `fathom dataset add` and times that. Each synthetic result is one of them under another run, day, host, job and rank, its
values times a lognormal factor (sigma 5 %, and 10 % more for one host of 50); files, columns and sizes are those of the real ones. Then
asks every question on each engine and prints a table in Markdown, the growth per result, and what a million would take if that
growth holds. Making 10,000 results takes minutes: --only-make does that alone, and a later call finds them in DIR.

Needs pyarrow (it comes with pandas or `pip install pyarrow`) besides the engines. What not: accuracy of answers (crates/cli/tests/across.rs).
"""

import argparse
import datetime
import os
import random
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pyarrow
import pyarrow.compute as compute
import pyarrow.parquet as parquet

QUESTIONS = [
    ("imbalance", []), ("slowest-node", []), ("regressed", ["since=2026-11-15"]), ("regressed-functions", ["since=2026-11-15"]),
    ("top-functions", []), ("bandwidth", []), ("remote-objects", []), ("trend", []),
]
FIRST_DAY = datetime.date(2026, 11, 1)
NUMBERS = ("value", "low", "high")
RANKS = 8
HOSTS = 50
# Of other engines than the default, two questions stand for all.
FEW_QUESTIONS = ("imbalance", "top-functions")


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fathom", required=True)
    parser.add_argument("--seeds", nargs="+", required=True, help="results of this machine")
    parser.add_argument("--sizes", default="100,1000,10000")
    parser.add_argument("--engines", default="duckdb,clickhouse,spark")
    parser.add_argument("--work", default="/tmp/fathom-fleet")
    parser.add_argument("--only-make", action="store_true", help="make the datasets, ask nothing")
    return parser.parse_args()


def children_cpu():
    """CPU seconds of all children so far."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def add_seeds(fathom, seeds, dataset):
    """Adds the real results one at a time; returns CPU seconds of each and peak bytes."""
    seconds = []
    for seed in seeds:
        before = children_cpu()
        subprocess.run([fathom, "dataset", "add", "-q", dataset, seed], check=True)
        seconds.append(children_cpu() - before)
    return seconds, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024


def templates(dataset):
    """Tables by seed: name of the table to its rows."""
    found = {}
    for file in dataset.glob("*/**/*.parquet"):
        if file.stem.startswith("schema-"):
            continue
        table = file.relative_to(dataset).parts[0]
        analysis = file.parent.name
        found.setdefault((file.stem, analysis), {})[table] = parquet.ParquetFile(file).read()
    return list(found.items())


def set_column(rows, name, value):
    at = rows.schema.get_field_index(name)
    kind = rows.schema.field(at).type
    return rows.set_column(at, name, pyarrow.array([value] * rows.num_rows, kind))


def synthetic(rows, table, number, factor, host, day, rank, job):
    rows = set_column(rows, "run", f"{number:032x}")
    if table == "runs":
        values = {"host_name": host, "rack": f"rack{int(host[4:]) // 10}", "job_name": job, "mpi_rank": rank, "mpi_ranks": RANKS,
                  "started": time.mktime(day.timetuple()) + number % 3600, "state": "complete"}
        for name, value in values.items():
            rows = set_column(rows, name, value)
        return rows
    for name in (*NUMBERS, "variance"):
        at = rows.schema.get_field_index(name)
        scaled = compute.multiply(rows.column(at), factor ** 2 if name == "variance" else factor)
        rows = rows.set_column(at, name, scaled)
    return rows


def grow(dataset, seeds, end):
    """Adds so many synthetic results."""
    for number in range(end):
        chance = random.Random(number)
        (_, analysis), tables = seeds[number // RANKS % len(seeds)]
        job, rank = f"job{number // RANKS}", number % RANKS
        at = chance.randrange(HOSTS)
        host, day = f"node{at}", FIRST_DAY + datetime.timedelta(days=number // RANKS % 28)
        factor = chance.lognormvariate(0, 0.05) * (1.1 if at == 7 else 1)
        for table, rows in tables.items():
            folder = dataset / table / f"date={day}" / f"host={host}" / f"job={job}" / f"rank={rank}" / analysis
            folder.mkdir(parents=True, exist_ok=True)
            rows = synthetic(rows, table, number, factor, host, day, rank, job)
            parquet.write_table(rows, folder / f"{number:032x}.parquet", compression="zstd", write_statistics=False)


def size(dataset):
    """Files, bytes, and bytes on the disk."""
    stats = [file.stat() for file in dataset.rglob("*.parquet")]
    return len(stats), sum(one.st_size for one in stats), sum(one.st_blocks * 512 for one in stats)


def ask(fathom, dataset, question, parameters, engine):
    words = [fathom, "across", dataset, question, "--engine", engine, "--format", "csv"]
    words += [word for one in parameters for word in ("--param", one)]
    began, before = time.monotonic(), children_cpu()
    found = subprocess.run(words, capture_output=True, text=True, timeout=280)
    took, cpu = time.monotonic() - began, children_cpu() - before
    if found.returncode != 0:
        return None, None, found.stderr.strip().splitlines()[-1:]
    return took, cpu, found.stdout.count("\n") - 1


def main():
    options = parse()
    work = Path(options.work)
    work.mkdir(parents=True, exist_ok=True)
    real = work / "real"
    shutil.rmtree(real, ignore_errors=True)
    seconds, peak = add_seeds(options.fathom, options.seeds, real)
    print(f"dataset add: {len(seconds)} results, CPU seconds each: "
          + ", ".join(f"{one:.2f}" for one in sorted(seconds)) + f"; peak {peak / 2**20:.0f} MiB", flush=True)
    sizes = [int(size) for size in options.sizes.split(",")]
    for number in sizes:
        fleet = work / f"fleet-{number}"
        if fleet.exists():
            continue
        half = work / "half"
        shutil.rmtree(half, ignore_errors=True)
        shutil.copytree(real, half, ignore=lambda folder, names: [
            name for name in names if name.endswith(".parquet") and not name.startswith("schema-")])
        grow(half, templates(real), number)
        half.rename(fleet)
    if options.only_make:
        return 0
    print("\n| results | files | bytes a result | on the disk | engine | question | seconds | CPU seconds | rows |\n|---|---|---|---|---|---|---|---|---|")
    times = {}
    for number in sizes:
        fleet = work / f"fleet-{number}"
        files, total, on_disk = size(fleet)
        for engine in options.engines.split(","):
            for question, parameters in QUESTIONS:
                if engine != "duckdb" and question not in FEW_QUESTIONS:
                    continue
                took, cpu, rows = ask(options.fathom, fleet, question, parameters, engine)
                times.setdefault((engine, question), []).append((number, took))
                shown = "failed |" if took is None else f"{took:.2f} | {cpu:.2f}"
                print(f"| {number} | {files} | {total / number:.0f} | {on_disk / number:.0f} | {engine} | {question} | {shown} | {rows} |",
                      flush=True)
    print("\n| engine | question | ms per result | a million results, one machine |\n|---|---|---|---|")
    for (engine, question), points in times.items():
        known = [(number, took) for number, took in points if took is not None]
        if len(known) < 2:
            continue
        (first, low), (last, high) = known[-2:]
        slope = (high - low) / (last - first)
        print(f"| {engine} | {question} | {slope * 1e3:.2f} | {slope * 1e6 / 60:.0f} min |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
