#!/usr/bin/env python3
"""Start-up, reading speed, memory and size: what a user waits for and pays besides the program's own time.

- start-up to the program's first instruction: fathom's own figure (run.json) for `true`, and, from outside, wall time of
  `fathom collect ... -- true` against `true` and `perf record -- true`;
- `report summary` of a 60 s, 2-thread recording beside `perf report --stdio` of the same program;
- peak memory of the collector, and the result's size per thread-minute.
"""
import json
import os
import resource
import statistics
import subprocess
import time

import common

SECONDS = 60


def timed(command):
    began = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return 1000 * (time.monotonic() - began)


def peak_kib(command):
    """Peak resident size of one process, as GNU time tells it (the largest of it and its children)."""
    pid = os.posix_spawnp(command[0], command, os.environ,
                          file_actions=[(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0),
                                        (os.POSIX_SPAWN_OPEN, 2, "/dev/null", os.O_WRONLY, 0)])
    return os.wait4(pid, 0)[2].ru_maxrss


def size(path):
    if os.path.isfile(path):
        return os.path.getsize(path)
    return sum(os.path.getsize(os.path.join(path, name)) for name in os.listdir(path))


def main():
    options = common.arguments()
    common.prepare()
    lines = ["# Start-up, reading, memory, size", "", common.machine(), ""]
    with common.scratch() as folder:
        quick = ["-q", "-k", "dram-bandwidth-limits=false"]
        startup, walls = [], {"true": [], "fathom": [], "perf": []}
        for number in range(options.rounds * 2):
            result = os.path.join(folder, f"s{number}")
            walls["true"].append(timed(["true"]))
            walls["fathom"].append(timed([common.FATHOM, "collect", "hotspots", *quick, "-r", result, "--", "true"]))
            walls["perf"].append(timed(["perf", "record", "-q", "-g", "-o", os.path.join(folder, "p"), "--", "true"]))
            startup.append(json.load(open(os.path.join(result, "run.json")))["own_cost"]["startup_ns"] / 1e6)
        lines += [f"- start-up to the program's first instruction: median {statistics.median(startup):.1f} ms, "
                  f"largest of {len(startup)} {max(startup):.1f} ms",
                  "- whole command around `true`: " + ", ".join(
                      f"{who} {statistics.median(times):.1f} ms" for who, times in walls.items())]

        program = [f"{common.PROGRAMS}/threads", "--threads", "2", "--ms", str(SECONDS * 1000)]
        result, data = os.path.join(folder, "long"), os.path.join(folder, "perf.data")
        common.run([common.FATHOM, "collect", "hotspots", *quick, "-r", result, "--", *program])
        common.run(["perf", "record", "-q", "-F", "1000", "-g", "-o", data, "--", *program])
        reading = {"fathom": [], "perf": []}
        for _ in range(options.rounds):
            reading["fathom"].append(timed([common.FATHOM, "report", "summary", "-r", result]))
            reading["perf"].append(timed(["perf", "report", "--stdio", "-i", data]))
        manifest = json.load(open(os.path.join(result, "run.json")))
        minutes = SECONDS * 2 / 60
        rows = subprocess.run([common.FATHOM, "report", "hotspots", "-r", result, "--format", "json"], capture_output=True, text=True, check=True)
        samples = json.loads(rows.stdout)
        lines += ["", f"Recording of {SECONDS} s, 2 threads at 1 kHz (`threads --threads 2`):", "",
                  "| | fathom | perf -g |", "|---|---|---|",
                  f"| reading (`report summary`, `perf report --stdio`) | {statistics.median(reading['fathom']):.0f} ms | {statistics.median(reading['perf']):.0f} ms |",
                  f"| peak memory of reading | {peak_kib([common.FATHOM, 'report', 'summary', '-r', result]) / 1024:.0f} MiB | {peak_kib(['perf', 'report', '--stdio', '-i', data]) / 1024:.0f} MiB |",
                  f"| peak memory of the collector | {manifest['own_cost']['peak_resident_bytes'] / 2**20:.0f} MiB | |",
                  f"| size per thread-minute | {size(result) / minutes / 1e6:.2f} MB | {size(data) / minutes / 1e6:.2f} MB |"]
        # A program with many distinct, deep stacks is the harder case for memory and size.
        deep = os.path.join(folder, "deep")
        common.run([common.FATHOM, "collect", "hotspots", *quick, "-r", deep, "--", "python3", "-c", DEEP])
        manifest = json.load(open(os.path.join(deep, "run.json")))
        lines += ["", f"python3, {manifest['elapsed_ns'] / 1e9:.0f} s of parsing, sorting and recursion: collector's peak memory "
                      f"{manifest['own_cost']['peak_resident_bytes'] / 2**20:.0f} MiB, "
                      f"result {size(deep) / 1e6:.2f} MB, {60e9 * size(deep) / manifest['elapsed_ns'] / 1e6:.2f} MB per thread-minute, "
                      f"collector's CPU {100 * manifest['own_cost']['cpu_time_ns'] / manifest['elapsed_ns']:.2f} % of elapsed"]
    print("\n".join(lines))
    if options.store:
        common.store("housekeeping", "\n".join(lines) + "\n")


DEEP = """
import ast, json, time, random, re
end = time.time() + 20
text = open(json.__file__).read() * 4
def deep(n): return 0 if n == 0 else 1 + deep(n - 1)
while time.time() < end:
    ast.dump(ast.parse(text)); json.loads(json.dumps([list(range(100))] * 200)); deep(300)
    sorted(random.random() for _ in range(20000)); re.findall(r'(\\w+)\\s*=\\s*(\\w+)', text)
"""

if __name__ == "__main__":
    main()
