#!/usr/bin/env python3
"""The pictures of the README and of docs/guide/page.md, and the output that the README quotes, from the program as it is.

    bench/pictures.py [--anyway]

Records recipe R1 and step 1 of R4, writes docs/images (light and dark) and the quoted output into README.md. Takes a minute;
then read `git diff README.md`, whose prose names some of the figures. The folder of the checkout is cut from quoted paths.

What not: benches. On a busy machine the figures mislead: it stops there, unless asked to go on (`--anyway`).
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

from common import FATHOM, ROOT, prepare

README = os.path.join(ROOT, "README.md")
IMAGES = os.path.join(ROOT, "docs", "images")
PRODUCT = ["multiply1", "--size", "1024", "--threads", "1"]
# Lower than what one busy program makes of a minute.
QUIET = 0.5


def output(*words):
    return subprocess.run([FATHOM, *words], cwd=ROOT, check=True, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout


def record(folder, result, program, *arguments):
    """Records in this folder of sources, so that paths are those of the README, and returns the page of it."""
    output("run", "-r", result, "--", f"recipes/build/{program}", *arguments)
    page = os.path.join(folder, f"{result}.html")
    output("html", result, "-o", page)
    return page


def quoted(text, command, lines, rest):
    """The README with these lines below `$ command`; `rest`: dots for what is left out."""
    block = re.compile(r"(```\n\$ " + re.escape(command) + r"\n)(.*?)(```\n)", re.S)
    if not block.search(text):
        sys.exit(f"README.md quotes no output of: {command}")
    body = "\n".join(line.rstrip() for line in lines) + "\n" + ("  ...\n" if rest else "")
    return block.sub(lambda found: found[1] + body + found[3], text)


def excerpt(lines):
    """The first screen up to its figures, and the first finding."""
    def part(start, end):
        at = lines.index(start)
        return lines[at:lines.index(end, at)]

    objects = next(line for line in lines if line.startswith("Objects"))
    what = part("What to change", "")
    first = next(at for at in range(2, len(what) + 1) if at == len(what) or re.match("  [a-z]", what[at]))
    return part(lines[0], objects) + ["..."] + what[:first]


def draw(chromium, folder):
    before = record(folder, "before", "pmdk_triad_before")
    product = record(folder, "product", *PRODUCT)
    os.makedirs(IMAGES, exist_ok=True)
    subprocess.run(["node", os.path.join(ROOT, "bench", "pictures.mjs"), chromium, IMAGES,
                    f"summary={product}#view=summary", f"timeline={before}#view=timeline",
                    f"source={product}#view=source", f"objects={product}#view=objects"], check=True)
    with open(README, encoding="utf-8") as file:
        text = file.read()
    summary = output("report", "summary", "-r", "product").replace(f"{ROOT}/", "").splitlines()
    text = quoted(text, f"fathom run -r product -- recipes/build/{' '.join(PRODUCT)}", excerpt(summary), True)
    with open(README, "w", encoding="utf-8") as file:
        file.write(text)


def main():
    there = [result for result in ("before", "product") if os.path.exists(os.path.join(ROOT, result))]
    if there:
        sys.exit(f"there is already a result in {' and in '.join(there)}: move it")
    load = os.getloadavg()[0]
    if load > QUIET and "--anyway" not in sys.argv[1:]:
        sys.exit(f"the load of this machine is {load:.1f}: wait until it is below {QUIET}, or say --anyway")
    chromium = shutil.which("chromium") or shutil.which("google-chrome") or sys.exit("there is no Chromium")
    prepare()
    with tempfile.TemporaryDirectory() as folder:
        try:
            draw(chromium, folder)
        finally:
            for result in ("before", "product"):
                shutil.rmtree(os.path.join(ROOT, result), ignore_errors=True)
    print(f"load {load:.1f}; now read: git diff README.md")


if __name__ == "__main__":
    main()
