"""Seed and number -> a program: source, compile line, admissible classes. The same seed gives the same text on every machine
with caches of the same size.

What for: drawing what no fixed list has. What not: the patterns themselves (families.py, irregular.py), their truth
(count.py), how long they run (score.py asks the program).

    bench/drawn/generate.py --seed 7 --index 3 --keep /tmp/it      writes the source and says how to build it
"""
import argparse
import os
import random
from typing import NamedTuple

import families
import fortran
import irregular

HERE = os.path.dirname(os.path.abspath(__file__))
FAMILIES = {**families.FAMILIES, **irregular.FAMILIES}
COMPILERS = {"c": ("gcc", "clang"), "c++": ("g++", "clang++"), "fortran": ("gfortran",)}
# No loop may become a call of memset or memcpy: their width of access is the C library's.
FLAGS = ["-g", "-fno-builtin", "-Wall"]


class Caches(NamedTuple):
    l1: int
    l2: int
    l3: int


class Program(NamedTuple):
    seed: int
    index: int
    source: str
    kernels: str  # in Fortran
    language: str
    compiler: str
    flags: tuple
    phases: tuple  # of PhaseDrawn

    @property
    def name(self):
        return f"{self.seed}/{self.index}"


class PhaseDrawn(NamedTuple):
    family: str
    level: str
    bytes: int
    huge: int
    threads: int
    type: str
    classes: tuple
    detail: str

    def text(self):
        size = f"{self.bytes >> 20} MiB" if self.bytes >= 1 << 20 else f"{self.bytes >> 10} KiB"
        words = [f"{self.family} ({self.detail})", self.type, size, self.level, *(["huge pages"] if self.huge else []),
                 *([f"{self.threads} threads"] if self.threads > 1 else [])]
        return ", ".join(words)


def drawn_size(rng, caches):
    """(level, bytes): well inside a level, far beyond the last, or within a factor of 2 of a level's size."""
    level = rng.choices(("l1", "l2", "l3", "dram", "border"), (15, 15, 15, 40, 15))[0]
    low, high = {"l1": (caches.l1 / 4, caches.l1 / 2), "l2": (caches.l2 / 8, caches.l2 / 4), "l3": (caches.l3 / 16, caches.l3 / 8),
                 "dram": (2.5 * caches.l3, 8 * caches.l3)}.get(level, (0, 0))
    if level == "border":
        size = rng.choice(caches)
        low, high = size / 2, size * 2
    # Sizes spread evenly on a scale of factors.
    return level, int(low * (high / low) ** rng.random())


def drawn_phase(rng, k, caches, flags, only, among):
    """(what it is, its C text, its Fortran text)"""
    level, size = drawn_size(rng, caches)
    family = only if only in among else rng.choice(sorted(among))
    draw = families.Draw(k=k, random=rng, bytes=size, level=level, huge=int(rng.random() < 0.3),
                         threads=2 if rng.random() < 0.3 else 1, type=rng.choice(sorted(families.TYPES)),
                         fast="-Ofast" in flags, plain="-O0" in flags)
    phase = among[family](draw)
    inline = rng.choice(("NOINLINE", "inline __attribute__((always_inline))"))
    return (PhaseDrawn(family, phase.level, phase.bytes, draw.huge, draw.threads, draw.type, phase.classes, phase.detail),
            f"/* Phase {k}: {family}, {phase.detail} */\n#define P{k}_INLINE {inline}\n{phase.source}",
            phase.fortran)


def main_of(phases):
    lines = [f"    drawn_begin(count, words, {len(phases)});"]
    lines += [f"    p{k}_setup();" for k in range(len(phases))]
    for k, phase in enumerate(phases):
        lines.append(f"    drawn_phase_begins({k});")
        if phase.threads > 1:
            lines.append(f"    drawn_parallel({k}, {phase.threads}, p{k}_work);")
        else:
            lines += [f"    for (size_t repeat = 0; repeat < drawn_repeats[{k}]; repeat++) {{", "        drawn_mark();",
                      f"        p{k}_work(0, 1);", "    }"]
        lines.append(f"    drawn_phase_ends({k});")
    return "int main(int count, char **words)\n{\n" + "\n".join(lines) + "\n    return drawn_end();\n}\n"


def program(seed, index, caches, only=None):
    """The program `index` of a seed."""
    rng = random.Random(f"drawn/{seed}/{index}/{only or ''}")
    language = rng.choices(("c", "c++", "fortran"), (6, 2, 1))[0]
    among = FAMILIES if language != "fortran" or only and only not in fortran.FAMILIES else fortran.FAMILIES
    language = "c" if among is FAMILIES and language == "fortran" else language
    compiler = rng.choice(COMPILERS[language])
    flags = (rng.choice(("-O0", "-O1", "-O2", "-O3", "-Ofast")), rng.choice(("-march=x86-64-v2", "-march=x86-64-v3")))
    drawn = [drawn_phase(rng, k, caches, flags, only, among) for k in range(rng.choice((1, 1, 2, 2, 3)))]
    phases = tuple(phase for phase, *_ in drawn)
    head = f"/* Drawn by bench/drawn/generate.py, seed {seed}, index {index}. */\n#include \"drawn.h\"\n\n"
    source = head + "\n".join(text for _, text, _ in drawn) + "\n" + main_of(phases)
    return Program(seed, index, source, "\n".join(text for *_, text in drawn).strip(), language, compiler, flags, phases)


def source_name(program):
    return "program.cpp" if program.language == "c++" else "program.c"


def build_commands(program, folder):
    """The commands that make FOLDER/program of FOLDER's source."""
    text, runtime, binary = (os.path.join(folder, name) for name in (source_name(program), "runtime.o", "program"))
    commands = [["gcc", "-std=gnu11", "-O3", "-march=x86-64-v3", "-g", "-fno-builtin", "-fno-tree-loop-distribute-patterns", "-c",
                 os.path.join(HERE, "runtime.c"), "-o", runtime]]
    standard, compiler, objects = ["-std=gnu11"], program.compiler, [runtime]
    if program.language == "c++":
        standard = ["-std=gnu++17"]
    if program.language == "fortran":
        compiler, kernels = "gcc", os.path.join(folder, "kernels.o")
        commands.append([program.compiler, *program.flags, "-g", "-fno-tree-loop-distribute-patterns", "-c",
                         os.path.join(folder, "kernels.f90"), "-o", kernels])
        objects.append(kernels)
    libraries = ["-pthread", "-lm", *(["-lgfortran"] if program.language == "fortran" else [])]
    # Valgrind 3.19 gives up over what clang 14 writes as DWARF 5.
    debug = ["-gdwarf-4"] if "clang" in compiler else []
    return [*commands, [compiler, *standard, *program.flags, *FLAGS, *debug, f"-I{HERE}", text, *objects, "-o", binary, *libraries]]


def write(program, folder):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, source_name(program)), "w") as file:
        file.write(program.source)
    if program.kernels:
        with open(os.path.join(folder, "kernels.f90"), "w") as file:
            file.write(program.kernels + "\n")


def caches_of_machine():
    """Sizes of the data caches, as the processor names them."""
    sizes = {}
    base = "/sys/devices/system/cpu/cpu0/cache"
    for entry in sorted(os.listdir(base)):
        def read(name):
            with open(os.path.join(base, entry, name)) as file:
                return file.read().strip()
        if entry.startswith("index") and read("type") != "Instruction":
            sizes[f"l{read('level')}"] = int(read("size").rstrip("K")) << 10
    return Caches(**{level: sizes.get(level, default) for level, default in
                     (("l1", 32 << 10), ("l2", 1 << 20), ("l3", 32 << 20))})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--index", type=int, required=True)
    parser.add_argument("--only", choices=sorted(FAMILIES), help="phases of this family only")
    parser.add_argument("--keep", required=True, metavar="FOLDER")
    options = parser.parse_args()
    drawn = program(options.seed, options.index, caches_of_machine(), options.only)
    write(drawn, options.keep)
    for phase in drawn.phases:
        print(f"# {phase.text()}: {' or '.join(phase.classes)}")
    for command in build_commands(drawn, options.keep):
        print(" ".join(command))


if __name__ == "__main__":
    main()
