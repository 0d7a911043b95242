#!/usr/bin/env python3
"""Every view of the page at 1440, 1024 and 400 pixels, in light and dark, in one HTML file to leaf through.

    bench/page_album.py [ALBUM.html] [NAME=RESULT ...]      (make page-album)

Without results it records one small program per analysis, which takes a minute. What not: judging what is seen.
"""
import os
import shutil
import subprocess
import sys
import tempfile

from common import FATHOM, PROGRAMS, RECIPES, ROOT, prepare

# One result per analysis. The last two are compared.
RUNS = [
    ("memory-access", [os.path.join(RECIPES, "multiply1"), "--size", "600", "--threads", "2"]),
    ("threading", [os.path.join(PROGRAMS, "waits_mix")]),
    ("memory-consumption", [os.path.join(PROGRAMS, "malloc_mix")]),
    ("system-overview", [os.path.join(PROGRAMS, "kernel_entries")]),
    ("hotspots", [os.path.join(RECIPES, "multiply2"), "--size", "600", "--threads", "2"]),
]


def fathom(*words):
    subprocess.run([FATHOM, *words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def recorded(folder):
    """Names and results, all in this folder."""
    subprocess.run(["make", "-s", "-C", os.path.join(ROOT, "tests", "programs")], check=True)
    results = []
    for analysis, words in RUNS:
        result = os.path.join(folder, analysis)
        fathom("collect", analysis, "-q", "-r", result, "--", *words)
        results.append((analysis, result))
    again = os.path.join(folder, "again")
    fathom("collect", "hotspots", "-q", "-r", again, "--", *RUNS[-1][1])
    return results, {RUNS[-1][0]: ["--with", again]}


def main():
    words = sys.argv[1:]
    album = words.pop(0) if words and "=" not in words[0] else os.path.join(ROOT, "target", "page-album.html")
    chromium = shutil.which("chromium") or shutil.which("google-chrome") or sys.exit("there is no Chromium")
    prepare()
    with tempfile.TemporaryDirectory() as folder:
        results, more = ([word.split("=", 1) for word in words], {}) if words else recorded(folder)
        pages = []
        for name, result in results:
            page = os.path.join(folder, f"{name}.html")
            fathom("html", result, "-o", page, *more.get(name, []))
            pages.append(f"{name}={page}")
        sys.exit(subprocess.run(["node", os.path.join(ROOT, "bench", "album.mjs"), chromium, album, *pages]).returncode)


if __name__ == "__main__":
    main()
