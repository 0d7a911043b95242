"""What the benches share: the machine's description, alternating rounds, medians with bootstrap intervals.

Timing never decides a test; here it is measured. Every figure is a ratio of two things run in turn in the same minutes,
because machines drift by more than most effects are large.
"""
import datetime
import json
import os
import platform
import random
import re
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Another build is measured where FATHOM names one.
FATHOM = os.environ.get("FATHOM", os.path.join(ROOT, "target", "release", "fathom"))
PROGRAMS = os.path.join(ROOT, "tests", "programs", "build")
RECIPES = os.path.join(ROOT, "recipes", "build")


def prepare():
    """Builds what is measured."""
    cargo = [] if "FATHOM" in os.environ else [["cargo", "build", "--release", "-q", "-p", "fathom"]]
    for command in (*cargo, ["make", "-s", "-C", "tests/programs"], ["make", "-s", "-C", "recipes"]):
        subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def machine():
    """One line that says where the figures come from."""
    cpu = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "?")
    ram = int(next(line for line in open("/proc/meminfo") if line.startswith("MemTotal")).split()[1]) >> 20
    family = [line.split(":")[1].strip() for line in open("/proc/cpuinfo") if re.match(r"(cpu family|model|stepping)\s*:", line)][:3]
    virtual = "virtual machine" if "hypervisor" in open("/proc/cpuinfo").read() else "bare metal"
    return (f"{cpu} (family/model/stepping {'/'.join(family)}), {os.cpu_count()} CPUs, {ram} GiB, {virtual}, "
            f"Linux {platform.release()}, {datetime.date.today()}, commit {commit()}")


def commit():
    result = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return result.stdout.strip() or "?"


def steal_and_load():
    """(stolen, busy) CPU seconds of the machine so far."""
    fields = [int(word) for word in open("/proc/stat").readline().split()[1:9]]
    return fields[7] / 100, (fields[0] + fields[1] + fields[2]) / 100


def run(command, environment=None):
    """Runs to the end, returns its stdout; a failure ends the bench."""
    result = subprocess.run(command, capture_output=True, text=True, env=environment)
    if result.returncode != 0:
        sys.exit(f"{' '.join(command)} failed ({result.returncode}):\n{result.stdout}\n{result.stderr}")
    return result.stdout


def value(text, key):
    """A `key=number` line of a program's output."""
    match = re.search(rf"^{key}=([0-9.eE+-]+)", text, re.M)
    if not match:
        sys.exit(f"no {key}= in:\n{text}")
    return float(match.group(1))


def interval(values, statistic=statistics.median, rounds=4000):
    """95 % bootstrap interval of a statistic (Efron & Tibshirani 1993, percentile method)."""
    rng = random.Random(1)
    drawn = sorted(statistic(rng.choices(values, k=len(values))) for _ in range(rounds))
    return drawn[int(0.025 * rounds)], drawn[int(0.975 * rounds)]


def scratch():
    return tempfile.TemporaryDirectory(prefix="fathom-bench-", dir="/dev/shm")


def store(name, text):
    """Keeps a run beside earlier ones."""
    path = os.path.join(ROOT, "bench", "results", f"{name}.md")
    with open(path, "w") as file:
        file.write(text)
    print(f"\nstored in {os.path.relpath(path, ROOT)}")


def arguments():
    """`--rounds N` with a default, for all benches."""
    import argparse
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--store", action="store_true", help="keep the result in bench/results")
    return parser.parse_args()
