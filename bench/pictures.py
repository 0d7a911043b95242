#!/usr/bin/env python3
"""The README's pictures, and the output that it quotes, from one recording: so both tell of the same run.

    bench/pictures.py [--anyway]

Records recipe R1 and step 1 of R4, writes docs/images (light and dark), puts pictures that follow the reader's colours and
the quoted output into README.md. Takes a minute; then read `git diff README.md`, whose prose names some of the figures.

What not: benches. On a busy machine the figures mislead: it stops there, unless told to go on.
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


def until(lines, last):
    """The lines up to the first that begins so."""
    for at, line in enumerate(lines):
        if line.strip().startswith(last):
            return lines[:at + 1]
    return lines


def first_finding(lines):
    """The table's rows, and the first finding's remarks."""
    second = next((at for at, line in enumerate(lines) if line.startswith("  - 2.")), None)
    items = [at for at, line in enumerate(lines) if line.startswith("  - ")]
    end = second or (items[1] if len(items) > 1 else len(lines))
    return lines[2:end]


def pictures_in(text):
    """Images become pictures in light and dark."""
    def both(found):
        label, name = found[1].replace(", in dark", ""), found[2]
        return (f'<picture>\n  <source media="(prefers-color-scheme: dark)" srcset="docs/images/{name}-dark.png">\n'
                f'  <img alt="{label}" src="docs/images/{name}.png">\n</picture>')
    return re.sub(r"!\[([^\]]*)\]\(docs/images/(\w+)\.png\)", both, text)


def draw(chromium, folder):
    before = record(folder, "before", "pmdk_triad_before")
    product = record(folder, "product", "multiply1", "--size", "1024", "--threads", "2")
    os.makedirs(IMAGES, exist_ok=True)
    subprocess.run(["node", os.path.join(ROOT, "bench", "pictures.mjs"), chromium, IMAGES,
                    f"summary={before}#view=summary", f"timeline={before}#view=timeline",
                    f"source={before}#view=source", f"objects={product}#view=objects"], check=True)
    with open(README, encoding="utf-8") as file:
        text = file.read()
    summary = output("report", "summary", "-r", "before").splitlines()
    text = quoted(text, "fathom run -r before -- recipes/build/pmdk_triad_before",
                  ["..."] + until(summary, "In huge pages"), True)
    findings = output("report", "findings", "-r", "before").splitlines()
    text = quoted(text, "fathom report findings -r before", first_finding(findings), True)
    source = "fathom report source -r before --filter function=pmemobj_direct_inline"
    text = quoted(text, source, output(*source.split()[1:]).splitlines(), False)
    with open(README, "w", encoding="utf-8") as file:
        file.write(pictures_in(text))


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
