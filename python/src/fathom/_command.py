"""Starts the program `fathom`: which file that is, and its errors as exceptions. What not: options and what they mean."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from importlib import metadata


class FathomError(RuntimeError):
    """What the program says, and its exit code: 1 a gate failed, 2 usage, 3 cannot be measured here, 4 damaged, 5 a bug."""

    def __init__(self, code: int, text: str) -> None:
        # Notebooks ask for colours.
        plain = re.sub(r"\x1b\[[0-9;]*m", "", text).strip().removeprefix("fathom: ")
        super().__init__(plain or f"fathom ended with exit code {code}")
        self.code = code


def binary() -> str:
    """$FATHOM if it is set; else the program that came with this package, wherever pip put it; else the one on PATH."""
    if "FATHOM" in os.environ:
        return os.environ["FATHOM"]
    try:
        files = metadata.files("fathom-profiler") or []
    except metadata.PackageNotFoundError:
        files = []
    ours = (str(file.locate()) for file in files if file.name == "fathom" and file.parent.name == "bin")
    found = next(filter(os.path.exists, ours), None) or shutil.which("fathom")
    if found is None:
        raise FathomError(3, "the program fathom is missing: pip install fathom-profiler, or set FATHOM to its path")
    return found


def ask(*arguments: str, may_be: int = 0) -> str:
    """The standard output of a command that ends with 0 or this code."""
    ended = subprocess.run([binary(), *arguments], stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", errors="replace")
    if ended.returncode not in (0, may_be):
        raise FathomError(ended.returncode, ended.stderr)
    return ended.stdout
