"""The programs of the truth bench: how they are started, how an expert would classify them, and how they are simulated.

What for: the one table that the bench and the simulation read. What not: the truth itself; a program states it in its last
line, and what arithmetic cannot give stands in simulated.json.

Classes. bandwidth-bound: more bytes per second would help. latency-bound: the wait for single lines. core-bound: memory is
idle. tlb-bound: 2 MB pages take off a third of the time or more (measured with --huge 1 on the machine of the stored
run). Where two answers are right, both are accepted.
"""
import json
import os
from typing import NamedTuple

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.path.join(HERE, "build")
SIMULATED = os.path.join(HERE, "simulated.json")

BANDWIDTH, LATENCY, CORE, TLB = "bandwidth-bound", "latency-bound", "core-bound", "tlb-bound"


class Program(NamedTuple):
    name: str
    command: list  # without --repeat and --threads: it names the same work per repeat, always
    repeat: int  # for 2 to 4 seconds on an idle machine of 2024
    classes: tuple
    threads: bool = False  # also with all threads
    simulate: tuple = (2, 4)  # repeats of the two simulated runs; None: cannot be simulated

    def start(self, repeat, threads=1, traced=False):
        folder = os.path.join(BUILD, "traced") if traced else BUILD
        asked = ["--threads", str(threads)] if threads > 1 else []
        return [os.path.join(folder, self.command[0]), *self.command[1:], "--repeat", str(repeat), *asked]


def streams():
    for kernel in ("copy", "scale", "add", "triad"):
        yield Program(kernel, ["stream", "--kernel", kernel], 120, (BANDWIDTH,), threads=True)
        # The compiler's instrumentation leaves out non-temporal stores.
        yield Program(f"{kernel}, nt", ["stream", "--kernel", f"{kernel}_nt"], 160, (BANDWIDTH,), threads=True, simulate=None)


def strides():
    for lines, repeat, classes in ((2, 60, (BANDWIDTH,)), (8, 50, (BANDWIDTH, LATENCY)), (64, 40, (TLB, LATENCY)),
                                   (512, 25, (TLB, LATENCY))):
        yield Program(f"stride {lines} lines", ["stride", "--lines", str(lines)], repeat, classes)


def rows():
    return [
        *streams(),
        Program("multiply1", ["multiply1", "--rows", "16"], 8, (TLB, LATENCY), simulate=(1, 2)),
        Program("multiply2", ["multiply2", "--rows", "64"], 24, (BANDWIDTH,), simulate=(1, 2)),
        Program("multiply3", ["multiply3", "--rows", "256"], 20, (CORE,), simulate=(1, 2)),
        Program("chase L1", ["chase", "--bits", "9", "--level", "1"], 3000000, (CORE, LATENCY), simulate=(1000, 2000)),
        Program("chase L2", ["chase", "--bits", "13", "--level", "2"], 60000, (LATENCY,), simulate=(100, 200)),
        Program("chase L3", ["chase", "--bits", "16", "--level", "3"], 1000, (LATENCY, TLB), simulate=(10, 20)),
        Program("chase DRAM", ["chase"], 5, (LATENCY, TLB)),
        Program("chase DRAM, 2 MB pages", ["chase", "--huge", "1"], 6, (LATENCY,)),
        Program("gather 8 MB", ["gather", "--bits", "20"], 100, (LATENCY,), threads=True),
        Program("gather 512 MB", ["gather", "--bits", "26"], 15, (TLB, LATENCY), threads=True),
        *strides(),
        Program("stencil 2D", ["stencil", "--dimensions", "2"], 90, (BANDWIDTH,)),
        Program("stencil 3D", ["stencil", "--dimensions", "3", "--side", "256"], 90, (BANDWIDTH,)),
        Program("stencil 3D, large", ["stencil", "--dimensions", "3", "--side", "480"], 15, (BANDWIDTH,), simulate=(1, 2)),
        Program("hash probe", ["hash_probe"], 90, (TLB, LATENCY), simulate=(10, 20)),
        Program("spmv", ["spmv"], 60, (BANDWIDTH,), threads=True),
        Program("radix pass", ["radix"], 20, (LATENCY, BANDWIDTH)),
        Program("l1 fma", ["l1_fma"], 20000000, (CORE,), threads=True, simulate=(1000, 2000)),
    ]


def simulated():
    """The stored simulations: {"caches": text, "programs": {name: figures}}."""
    with open(SIMULATED) as file:
        return json.load(file)
