#!/usr/bin/env python3
"""Walks the four recipes of docs/guide with the commands printed there, and checks their conclusions.

The guides are the scripts: every line after `$ ` in their `console` blocks is run, in order, in one scratch folder per
recipe, where `fathom` and `recipes` are at hand. Then the conclusions are checked in the JSON of the same results.
A conclusion that does not depend on timing must hold: if one is not met, the exit code is 1. What the machine decides
(speeds, rates, what threads gain, free huge pages) is printed with its figures, and a busy machine may miss it.

    bench/recipes.py [--fathom PATH] [--keep DIR] [--write-docs] [--store] [1|2|3|4 ...]
    bench/recipes.py [--fathom PATH] [--keep DIR] [--store] --article-size

--write-docs puts the output of this walk into the guides, --store the table of checks into bench/results/recipes.md.
--article-size walks recipe 1 with the published number of elements; its table is bench/results/recipe-1-large.md.
--keep leaves the results in DIR/recipe-N.
"""
import argparse
import os
import re
import resource
import shutil
import subprocess
import sys
import time

import common
import recipe_checks

GUIDE = os.path.join(common.ROOT, "docs", "guide")
BLOCK = re.compile(r"^```console\n(.*?)^```\n", re.M | re.S)
# Of recipe 1: of the guide, and as published (recipes/README.md).
ELEMENTS, PUBLISHED = "--elements 20000000", "--elements 82955000"
MEASURED = re.compile(r"^Measured: .*\n", re.M)


def commands(block):
    """The lines after `$ `; one that ends with a backslash goes on in the next."""
    found, lines = [], iter(block.splitlines())
    for line in lines:
        if line.startswith("$ "):
            while line.endswith("\\"):
                line += "\n" + next(lines)
            found.append(line[2:])
    return found


def walk(text, folder, environment):
    """Runs the commands of a guide; its text with their output. A command that fails ends the bench."""
    def run(match):
        block = []
        for command in commands(match.group(1)):
            started = time.monotonic()
            done = subprocess.run(["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True)
            print(f"  {time.monotonic() - started:6.1f} s  $ {command}", flush=True)
            if done.returncode != 0:
                sys.exit(f"exit code {done.returncode}:\n{done.stdout}\n{done.stderr}")
            block += [f"$ {command}", *(line.rstrip() for line in done.stdout.splitlines()), ""]
        return "```console\n" + "\n".join(block).rstrip() + "\n```\n"
    return BLOCK.sub(run, text)


def prepare_folder(folder, fathom):
    """An empty folder with `recipes`, and a PATH that knows `fathom`."""
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(os.path.join(folder, "bin"))
    os.symlink(os.path.abspath(fathom), os.path.join(folder, "bin", "fathom"))
    os.symlink(os.path.join(common.ROOT, "recipes"), os.path.join(folder, "recipes"))
    path = os.path.join(folder, "bin") + os.pathsep + os.environ["PATH"]
    # Views are as wide as the reader's terminal: the guides' lines have 100 columns.
    return {**os.environ, "PATH": path, "COLUMNS": "100", "NO_COLOR": "1"}


class Others:
    """CPU time of programs that are not ours, since the start, percent of the machine."""

    def __init__(self):
        self.start = self.now()

    @staticmethod
    def now():
        ours = resource.getrusage(resource.RUSAGE_CHILDREN)
        return time.monotonic(), common.steal_and_load()[1], ours.ru_utime + ours.ru_stime

    def percent(self):
        seconds, busy, ours = (now - then for now, then in zip(self.now(), self.start))
        return max(0.0, 100 * (busy - ours) / seconds / os.cpu_count())


def guide(number):
    return os.path.join(GUIDE, f"recipe-{number}.md")


def walk_recipe(number, folder, fathom, write_docs, article_size=False):
    """One recipe; (rows of the table, conclusions that are wrong)."""
    print(f"Recipe {number}: {folder}", flush=True)
    environment = prepare_folder(folder, fathom)
    with open(guide(number)) as file:
        text = file.read()
    if article_size:
        text = text.replace(ELEMENTS, PUBLISHED)
    others = Others()
    text = walk(text, folder, environment)
    busy = others.percent()
    checks = recipe_checks.Checks(number, folder, environment)
    recipe_checks.RECIPES[number](checks)
    print(f"  other programs used {busy:.0f} % of the machine during the run", flush=True)
    if write_docs:
        # Without the commit: the one that will hold this text has no name yet.
        machine = common.machine().rsplit(", commit", 1)[0]
        measured = f"Measured: {machine}; other programs used {busy:.0f} % of the machine during the run.\n"
        # Where the tree lies is of no use to a reader.
        text = MEASURED.sub(lambda _: measured, text).replace(common.ROOT + "/", "")
        with open(guide(number), "w") as file:
            file.write(text)
    return checks


def missing_programs():
    """Programs of the guides that were not built: their library is missing."""
    names = {name for number in recipe_checks.RECIPES for name in re.findall(r"recipes/build/(\w+)", open(guide(number)).read())}
    return sorted(name for name in names if not os.path.exists(os.path.join(common.RECIPES, name)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fathom", type=os.path.abspath, default=common.FATHOM)
    parser.add_argument("--keep", metavar="DIR")
    parser.add_argument("--write-docs", action="store_true")
    parser.add_argument("--store", action="store_true")
    parser.add_argument("--article-size", action="store_true")
    parser.add_argument("recipe", nargs="*", type=int, choices=[[], *recipe_checks.RECIPES])
    options = parser.parse_args()
    subprocess.run(["make", "-s", "-C", os.path.join(common.ROOT, "recipes")], check=True)
    missing = missing_programs()
    if missing:
        sys.exit(f"not built: {', '.join(missing)}; what they need: recipes/README.md")
    started, all_checks = time.monotonic(), []
    with common.scratch() as temporary:
        for number in [1] if options.article_size else options.recipe or recipe_checks.RECIPES:
            folder = os.path.join(os.path.abspath(options.keep or temporary), f"recipe-{number}")
            write = options.write_docs and not options.article_size
            all_checks.append(walk_recipe(number, folder, options.fathom, write, options.article_size))
    name = "recipe-1-large" if options.article_size else "recipes"
    return report(all_checks, time.monotonic() - started, name if options.store else None)


def report(all_checks, seconds, name):
    """The table, stored under this name if there is one; the exit code."""
    wrong = sum(checks.wrong for checks in all_checks)
    title = "# The recipes' conclusions" if name != "recipe-1-large" else "# Recipe 1 with 82,955,000 elements, as published"
    text = [title, "", common.machine(), "",
            f"{seconds:.0f} s for everything. `bench/recipes.py` runs the commands of `docs/guide/recipe-N.md` and checks what comes",
            "out. *must*: does not depend on timing, and decides the exit code; *machine*: depends on its speed, on who else uses it,",
            "on free huge pages, and is printed only.", "",
            "| recipe | kind | conclusion | figures | |", "|---|---|---|---|---|",
            *(row for checks in all_checks for row in checks.rows), ""]
    print("\n" + "\n".join(text[4:]))
    if name:
        common.store(name, "\n".join(text))
    print(f"{wrong} conclusions that do not depend on timing are NOT MET" if wrong else "every conclusion that does not depend on timing is met")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
