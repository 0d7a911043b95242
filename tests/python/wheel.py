#!/usr/bin/env python3
"""The wheel of `make wheel`: installed into a fresh environment without any other package, it profiles a program, and its types hold.

Usage: wheel.py FATHOM SPIN      SPIN: tests/programs/build/spin
"""

import os
import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

USE = """
import fathom, sys
assert fathom.__file__.startswith(sys.prefix), fathom.__file__
result = fathom.run(sys.argv[1:], "hotspots", result="r", dram_bandwidth_limits=False)
cpu = result.summary.cpu_time
assert cpu.unit == "s" and 0.1 < cpu.value < 1, cpu
assert result.view("hotspots", limit=1)[0].function == "inlined_work", result.view("hotspots")
"""

# What a user's checker must know of the package: a figure may be unknown, and names are checked.
TYPED = """
import fathom
result = fathom.Result("r")
seconds: float = result.summary.cpu_time.value
line: str = result.findings[0].where.line
result.summary.no_such_figure
"""


def ended(*words, **options):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, **options)
    return done.returncode, done.stdout + done.stderr


def must(*words, **options):
    code, text = ended(*words, **options)
    assert code == 0, f"{words}: {code}\n{text}"
    return text


def main():
    fathom, spin = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        wheel = Path(must(ROOT / "scripts/package.sh", "wheel", fathom, folder).strip().splitlines()[-1])
        libc = re.fullmatch(r"fathom_profiler-[\d.]+-py3-none-manylinux_2_(\d+)_x86_64\.whl", wheel.name)
        assert libc, wheel.name

        venv.create(folder / "venv", with_pip=False)
        python = folder / "venv/bin/python"
        must(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-index", wheel)
        version = must(folder / "venv/bin/fathom", "--version")
        assert version.split()[1] in wheel.name, version
        clean = {name: value for name, value in os.environ.items() if name not in ("FATHOM", "PYTHONPATH")}
        must(python, "-c", USE, spin, "--ms", "200", cwd=folder, env=clean)

        checked = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", folder / "mypy", "--python-executable", python]
        must(*checked, "--config-file", ROOT / "python/pyproject.toml", "-p", "fathom", cwd=folder)
        (folder / "typed.py").write_text(TYPED)
        code, text = ended(*checked, "typed.py", cwd=folder)
        lines = [int(number) for number in re.findall(r"^typed\.py:(\d+): error", text, re.M)]
        assert code == 1 and lines == [4, 5, 6], text


main()
