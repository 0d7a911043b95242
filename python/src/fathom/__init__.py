"""Fathom, the memory-performance profiler, from Python: record programs, running processes or blocks of code, and read the results as
rows, data frames and plots; mark regions of a program. Nothing is measured here: the program `fathom` does everything."""

from typing import Any

from ._command import FathomError, binary
from ._recording import attach, collect, profile, run, run_script
from ._regions import Region, mark, pause, region, resume
from ._result import Diff, Result
from ._values import Metric, Record, View

__all__ = [
    "Diff",
    "FathomError",
    "Metric",
    "Record",
    "Region",
    "Result",
    "View",
    "attach",
    "binary",
    "collect",
    "mark",
    "pause",
    "profile",
    "region",
    "resume",
    "run",
    "run_script",
]


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext fathom`."""
    from ._notebook import load

    load(shell)
