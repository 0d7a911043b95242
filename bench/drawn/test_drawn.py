#!/usr/bin/env python3
"""Tests of the drawn programs: the same seed gives the same program, counts agree with arithmetic, scores with their formulas.

Known counts come from loops whose loads and stores one can see: plain, with vectors, with an operand of FMA in memory
(which valgrind splits into lanes), with an instruction that reads and writes (which callgrind counts as a store). Caches
are small ones, so that arrays beyond them take no time. What not: Fathom itself. Without valgrind the counts are skipped.
"""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import causes  # noqa: E402
import count  # noqa: E402
import generate  # noqa: E402
import score  # noqa: E402

CACHES = generate.Caches(l1=32 << 10, l2=1 << 20, l3=32 << 20)
SMALL = {"l1": "32768,8,64", "l2": "131072,8,64", "l2 seen": "131072,8,64", "seen": "262144,16,64", "named": "524288,16,64",
         "half": "131072,16,64"}
ELEMENTS = 1 << 18  # 2 MiB of doubles
LOOPS = {
    # name: (flags, type, loop body, loads, stores per element; lines read, lines written per element of 64 bytes / size)
    "sum": (["-O1"], "double", "sum += a[i];", 1, 0, 1, 0),
    "copy": (["-O1"], "double", "b[i] = a[i];", 1, 1, 2, 1),
    "copy, vectors": (["-O3", "-march=x86-64-v3"], "double", "b[i] = a[i];", 0.25, 0.25, 2, 1),
    "update": (["-O1"], "int64_t", "a[i] += 1;", 1, 1, 1, 1),
    "FMA": (["-Ofast", "-march=x86-64-v3"], "double", "sum += a[i] * b[i];", 0.5, 0, 2, 0),
}


def loop_program(kind, body, elements):
    """Source of one phase that runs the body over all elements of two arrays."""
    fills = "".join(f"    {name} = drawn_array({elements} * sizeof({kind}), 0);\n    drawn_fill_{kind}({name}, {elements});\n"
                    for name in "ab")
    return (f'#include "drawn.h"\nstatic {kind} *a_, *b_;\nstatic NOINLINE void work(void)\n{{\n'
            f"    {kind} sum = 0, *RESTRICT a = a_, *RESTRICT b = b_;\n    (void)a, (void)b;\n"
            f"    for (size_t i = 0; i < {elements}; i++)\n        {body}\n    drawn_sum[0][0] += (double)sum;\n}}\n"
            f"int main(int count, char **words)\n{{\n    {kind} *a, *b;\n    drawn_begin(count, words, 1);\n{fills}"
            f"    a_ = a, b_ = b;\n    for (size_t r = 0; r < drawn_repeats[0]; r++) {{\n        drawn_mark();\n        work();\n"
            f"    }}\n    drawn_phase_ends(0);\n    return drawn_end();\n}}\n")


class Generating(unittest.TestCase):
    def test_a_seed_gives_the_same_program_in_another_process(self):
        asked = ("import generate; print([generate.program(7, i, generate.Caches(32768, 1 << 20, 32 << 20)) for i in range(20)])")
        texts = {subprocess.run([sys.executable, "-B", "-c", asked], cwd=generate.HERE, capture_output=True, text=True, check=True,
                                env={**os.environ, "PYTHONHASHSEED": hashing}).stdout for hashing in ("1", "2")}
        self.assertEqual(len(texts), 1)

    def test_other_numbers_give_other_programs(self):
        sources = {generate.program(seed, index, CACHES).source for seed in (1, 2) for index in range(20)}
        self.assertEqual(len(sources), 40)

    def test_each_family_compiles_and_has_a_class(self):
        with tempfile.TemporaryDirectory() as folder:
            for family in sorted(generate.FAMILIES):
                for index in range(2):
                    drawn = generate.program(3, index, CACHES, family)
                    generate.write(drawn, folder)
                    self.assertTrue(all(phase.classes for phase in drawn.phases), family)
                    language = ["-x", "c++", "-std=gnu++17"] if drawn.language == "c++" else ["-std=gnu11"]
                    result = subprocess.run(["gcc", *language, "-Wall", "-fsyntax-only", f"-I{generate.HERE}",
                                             os.path.join(folder, generate.source_name(drawn))], capture_output=True, text=True)
                    self.assertEqual((result.returncode, result.stderr), (0, ""), f"{family}, index {index}")

    def test_each_cause_compiles_in_all_variants(self):
        for index in range(len(causes.CAUSES)):
            drawn = causes.cause(5, index)
            self.assertEqual(drawn, causes.cause(5, index))
            self.assertIn(drawn.name, causes.CAUSES)
            for variant in range(3):
                result = subprocess.run(["gcc", "-std=gnu11", "-Wall", "-fsyntax-only", f"-DVARIANT={variant}", f"-I{generate.HERE}",
                                         "-x", "c", "-"], input=drawn.source, capture_output=True, text=True)
                self.assertEqual((result.returncode, result.stderr), (0, ""), f"{drawn.name}, variant {variant}")

    def test_classes_do_not_come_as_sets(self):
        for index in range(50):
            for phase in generate.program(11, index, CACHES).phases:
                self.assertEqual(list(phase.classes), sorted(set(phase.classes)))


@unittest.skipUnless(shutil.which("valgrind"), "skipped: valgrind is not installed: apt-get install valgrind")
class Counting(unittest.TestCase):
    def test_counts_are_those_of_arithmetic(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, (flags, kind, body, loads, stores, lines, dirty) in LOOPS.items():
                with self.subTest(name):
                    counted = self.counted(folder, flags, loop_program(kind, body, ELEMENTS))
                    line = ELEMENTS / 8  # elements of 8 bytes
                    self.near(counted["seen"]["loads"][1], loads * ELEMENTS)
                    self.near(counted["seen"]["stores"][1], stores * ELEMENTS)
                    for size in count.LAST:
                        self.near(counted[size]["DLmr"][1] + counted[size]["DLmw"][1], lines * line)
                        self.near(counted[size]["DLdmr"][1] + counted[size]["DLdmw"][1], dirty * line)
                    # Written once, in pages that the kernel cleared: nothing of that is read from memory.
                    truth = count.truth_at(counted, [0])
                    self.assertLess(truth["read"][1], 1 << 20)

    def test_what_modifies_memory_is_a_load_with_a_level(self):
        with tempfile.TemporaryDirectory() as folder:
            counted = self.counted(folder, ["-O1"], loop_program("int64_t", "a[i] += 1;", ELEMENTS))
            shares = count.truth_at(counted, [1000])
            for level, wanted in (("l1 share", 87.5), ("dram share", 12.5)):
                self.assertAlmostEqual(shares[level][0], wanted, 0)

    def test_what_fits_is_not_read_again(self):
        with tempfile.TemporaryDirectory() as folder:
            counted = self.counted(folder, ["-O1"], loop_program("double", "b[i] = a[i];", 1 << 10))
            self.near(counted["seen"]["loads"][1], 1 << 10)
            self.assertEqual([counted[size][key][1] for size in ("seen", "named") for key in ("DLmr", "DLmw")], [0] * 4)

    def counted(self, folder, flags, source):
        text, binary = os.path.join(folder, "program.c"), os.path.join(folder, "program")
        with open(text, "w") as file:
            file.write(source)
        for command in (["gcc", "-std=gnu11", "-O3", "-march=x86-64-v3", "-fno-builtin", "-c",
                         os.path.join(generate.HERE, "runtime.c"), "-o", os.path.join(folder, "runtime.o")],
                        ["gcc", "-std=gnu11", *flags, *generate.FLAGS, "-fno-tree-loop-distribute-patterns",
                         f"-I{generate.HERE}", text, os.path.join(folder, "runtime.o"), "-o", binary, "-pthread", "-lm"]):
            subprocess.run(command, check=True)
        return count.count(binary, 1, SMALL, os.path.join(folder, "counts"))

    def near(self, found, wanted):
        self.assertLess(abs(found - wanted), 0.003 * wanted + 100, f"{found} for {wanted}")


class Scoring(unittest.TestCase):
    def row(self, truth, found, quantity="loads"):
        return score.Row("1/1", ("stream",), (), quantity, truth, found, score.SLACK.get(quantity, score.SHARE_SLACK))

    def test_an_interval_that_misses_pays_forty_times_the_miss(self):
        held, missed = self.row((1e9, 1e9), (1e9, 0.9e9, 1.1e9)), self.row((1e9, 1e9), (1.3e9, 1.2e9, 1.4e9))
        self.assertTrue(held.covered)
        self.assertFalse(missed.covered)
        self.assertAlmostEqual(held.interval_score, 0.2)
        self.assertAlmostEqual(missed.interval_score, 0.2 + 40 * 0.2)
        self.assertAlmostEqual(missed.error, 0.3)

    def test_a_range_has_no_error_within(self):
        row = self.row((0.9e9, 1.1e9), (1.05e9, 1.0e9, 1.3e9))
        self.assertEqual((row.error, row.covered, row.known), (0.0, True, True))
        self.assertFalse(self.row((0.5e9, 1.5e9), (1e9, 1e9, 1e9)).known)

    def test_what_is_hardly_there_has_no_relative_error(self):
        self.assertEqual(self.row((1e5, 1e5), (3e5, 0, 9e5)).scale, 0.0)
        self.assertTrue(self.row((1e5, 1e5), (3e5, 0, 9e5)).covered)

    def test_wilson(self):
        low, high = score.binomial_interval(81, 263)  # Newcombe (1998), Statistics in Medicine 17, table I, method 3
        self.assertAlmostEqual(low / 100, 0.2553, 4)
        self.assertAlmostEqual(high / 100, 0.3662, 4)


if __name__ == "__main__":
    unittest.main()
