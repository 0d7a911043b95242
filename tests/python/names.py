#!/usr/bin/env python3
"""Python functions in profiles: under an interpreter that names them, every sample leads through all of them, from a script run by
`fathom.run` and from a block in this process.

Usage: names.py FATHOM      by a Python 3.12 or later
"""

import os
import sys
import tempfile
import time
from pathlib import Path

os.environ["FATHOM"] = sys.argv[1]
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python/src"))

import fathom  # noqa: E402

SCRIPT = """
import time

class Inner:
    def leaf(self, n):
        return sum([i * i % 7 for i in range(n)])

def outer(n):
    return Inner().leaf(n)

blocks = bytearray(50_000_000)
until = time.process_time() + 0.5
while time.process_time() < until:
    outer(10_000)
"""


def shares(result, functions):
    """Of functions of one name, such as the bodies of modules, the one with the most time counts."""
    rows = sorted(result.view("hotspots"), key=lambda row: row.total_percent.value or 0)
    rows = {row.function: row for row in rows}
    return [(rows[name].total_percent.value, rows[name].file) for name in functions]


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        Path("script.py").write_text(SCRIPT)
        result = fathom.run_script("script.py", dram_bandwidth_limits=False)
        for percent, file in shares(result, ["py::Inner.leaf", "py::outer", "py::<module>"]):
            assert percent > 60 and file == f"{os.path.realpath(folder)}/script.py", (percent, file)
        names = [row.object for row in result.view("objects")]
        assert any(name.endswith(" in py::<module> script.py") for name in names), names
        assert result.view("hotspots", filter={"function": "outer"}), "a filter takes the name without py::"

        # Again and again: switching names on and off leaves the process as it is.
        for _ in range(3):
            scope = {}
            with fathom.profile("hotspots") as recording:
                exec(SCRIPT, scope)
            assert not sys.is_stack_trampoline_active()
            (leaf, _), (outer, _) = shares(recording.result, ["py::Inner.leaf:<string>", "py::outer:<string>"])
            assert 40 < leaf <= outer, (leaf, outer)
        os.chdir("/")


main()
