#!/usr/bin/env python3
"""The package `fathom` of python/src: recording, figures, data frames, plots, errors; on real programs.

Usage: api.py FATHOM SPIN OBJECTS      SPIN uses as much CPU time as it is told; OBJECTS: memory_objects
"""

import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

FATHOM, SPIN, OBJECTS = sys.argv[1:]
os.environ["FATHOM"] = FATHOM
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python/src"))

import fathom  # noqa: E402

# Without measuring the machine first, which takes 16 s.
QUICK = {"analysis": "hotspots", "dram_bandwidth_limits": False}


def refused(code, words, call, *arguments, **options):
    try:
        call(*arguments, **options)
    except fathom.FathomError as error:
        assert error.code == code and words in str(error), (error.code, str(error))
    else:
        raise AssertionError(f"{call} {arguments} was not refused")


def figures_are_those_of_the_program(result):
    summary = result.summary
    assert summary.analysis == "memory-access" and summary["exit_code"] == 0
    traffic = summary.dram_bandwidth.average
    assert traffic.unit == "GB/s" and traffic.evidence == "estimated" and traffic.low <= traffic.value <= traffic.high > 0, traffic
    # One run has no spread: unknown, with the reason, and not 0.
    unknown = summary.spread.deviation
    assert unknown.value is None and unknown.note and str(unknown).startswith("n/a: one run"), unknown
    assert str(result).startswith("r000ma  memory-access") and result._repr_markdown_().startswith("### `r000ma`")
    assert "no_such_figure" in str(raised(AttributeError, lambda: summary.no_such_figure))
    assert result.findings is summary.findings


def raised(kind, call):
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"no {kind}")


def views_are_rows_and_frames(result):
    import pyarrow

    rows = result.view("hotspots", group=["function", "module"], filter={"module": Path(OBJECTS).name}, sort="cpu_time")
    assert rows and {row.module for row in rows} == {Path(OBJECTS).name} and rows.total.cpu_time.value > 0
    frame = result.to_pandas("hotspots", group="function")
    of_all = result.view("hotspots")
    assert list(frame["cpu_time"]) == [row.cpu_time.value for row in of_all] and frame.attrs["units"]["cpu_time"] == "s"
    assert list(frame["cpu_time_low"]) == [row.cpu_time.low for row in of_all]
    unknown = result.to_pandas("objects")["remote_percent"]
    assert unknown.isna().all() and str(unknown.dtype) == "float64", unknown
    table = result.to_arrow(rows)
    assert isinstance(table, pyarrow.Table) and table.column("function").to_pylist() == [row.function for row in rows]
    assert result.view("waits").empty, "a view without rows says why"
    try:
        import polars
    except ImportError:
        pass
    else:
        assert result.to_polars(rows)["cpu_time"].dtype == polars.Float64
    # A view and a table may have the same name: a table is a file.
    assert result.to_arrow(result.tables["samples"]).num_rows == len(result.to_pandas(result.tables["samples"])) > 0


def pictures_are_drawn(result):
    import matplotlib

    matplotlib.use("Agg")
    for plot in (result.plot_bandwidth, result.plot_objects):
        plot().figure.savefig(f"{plot.__name__}.svg")
    flame = result.plot_flame()
    assert flame.startswith("<svg") and "data:image/svg+xml;base64," in flame._repr_html_()
    assert b"<html" in result.export("html", "page.html").read_bytes()[:200].lower()
    refused(2, "no figure 'alloc_space' here", result.plot_flame, "alloc_space")


def programs_end_as_they_do(spun):
    failed = fathom.run(["sh", "-c", f"{SPIN} --ms 100; echo complaint >&2; exit 3"], **QUICK)
    assert failed.summary.exit_code == 3 and failed.path.name == "r002hs", failed
    refused(2, "neither a file here nor in PATH", fathom.run, "no-such-program")
    refused(2, "is not allowed", fathom.run, [SPIN, "--ms", "100"], overhead="much")
    refused(2, "exists already", fathom.run, [SPIN, "--ms", "100"], result=spun.path)
    refused(2, "has no run.json", lambda: fathom.Result("nowhere").summary)
    refused(2, "cannot be grouped by", spun.view, "threads", group="cache-line")
    refused(2, "there is no process", fathom.attach, 2**22 + 1)
    failing = spun.diff(spun, gates=["cpu_time<=5%"])
    assert failing.passed and failing.totals[0].metric == "elapsed" and failing.gates[0].outcome, failing.gates


def results_that_begin_at_once_have_names_of_their_own():
    made = []
    threads = [threading.Thread(target=lambda: made.append(fathom.run([SPIN, "--ms", "100"], **QUICK).path)) for _ in range(3)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert len(set(made)) == 3 and all(path.is_dir() for path in made), made


def a_block_is_recorded():
    with fathom.profile("hotspots") as recording:
        refused(2, "being recorded already", fathom.profile("hotspots").__enter__)
        until = time.process_time() + 0.3
        while time.process_time() < until:
            sum(range(1000))
    assert recording.result.summary.target == "attached" and recording.result.summary.cpu_time.value > 0.2

    def failing():
        with fathom.profile("hotspots") as failed:
            made.append(failed)
            raise ZeroDivisionError

    made = []
    raised(ZeroDivisionError, failing)
    assert made[0].result.summary.exit == recording.result.summary.exit
    refused(2, "possible values: memory-access", fathom.profile("nonsense").__enter__)
    refused(2, "possible values: memory-access", fathom.profile("nonsense").__enter__)


def parts_of_tables_have_names():
    import numpy
    import pandas
    import pyarrow

    def named(**variables):
        file = fathom._recording._name_arrays(variables)
        lines = Path(f"/proc/self/fd/{file.fileno()}").read_text().splitlines()
        return {line.split(" ", 2)[2]: [int(number, 16) for number in line.split(" ", 2)[:2]] for line in lines}

    rows = 50_000
    frame = pandas.DataFrame({"price": numpy.arange(rows) * 0.5, "count": numpy.arange(rows)})
    frame["tax"] = frame["price"] * 0.2
    frame["masked"] = pandas.array([1, None] * (rows // 2), dtype="Int32")
    found = named(frame=frame)
    assert set(found) == {f"frame['{name}']: {kind}[{rows}]" for name, kind in
                          [("price", "float64"), ("count", "int64"), ("tax", "float64"), ("masked", "int32")]}, found
    assert found[f"frame['tax']: float64[{rows}]"] == [frame["tax"].to_numpy().ctypes.data, rows * 8]
    # Of a table in one array, row by row, no column lies in one piece: the array has the table's name.
    whole = numpy.zeros((1000, 3))
    shares = pandas.DataFrame(whole, columns=["a", "b", "c"], copy=False)
    assert named(shares=shares) == {"shares: float64[1000, 3]": [whole.ctypes.data, whole.nbytes]}
    series = pandas.Series(numpy.ones(rows), name="x")
    assert set(named(series=series, text=pandas.Series(["a", "b"]))) == {f"series: float64[{rows}]"}
    # By DLPack, as tensors of PyTorch and JAX: here an array of Arrow.
    arrow = pyarrow.array(numpy.arange(rows))
    assert named(arrow=arrow) == {f"arrow: int64[{rows}]": [arrow.buffers()[1].address, rows * 8]}
    grid = numpy.ones((4, 8))
    assert named(_0=grid, row=grid[1], grid=grid) == {"grid: float64[4, 8]": [grid.ctypes.data, grid.nbytes]}
    # An array with gaps cannot be shown: nothing is said, and the others are named.
    assert set(named(gaps=pyarrow.array([1, None]), grid=grid)) == {"grid: float64[4, 8]"}


LIES = "x 10 no number\n10 0 empty\nffffffffffffffff 2 wraps\n500000000000 fffffffffff all\n0 8 \xff\x00\n"


def arrays_from_before_have_the_names_of_their_variables():
    import numpy

    grid = numpy.ones((1 << 10, 1 << 12))
    row = grid[7]
    name_arrays = fathom._recording._name_arrays

    def with_lies(variables):
        file = name_arrays(variables)
        file.write(LIES)
        file.flush()
        return file

    fathom._recording._name_arrays = with_lies
    with fathom.profile(burst_interval=50, overhead=10) as recording:
        until = time.process_time() + 0.5
        while time.process_time() < until:
            grid.sum()
    fathom._recording._name_arrays = name_arrays
    objects = recording.result.view("objects", sort="accesses")
    names = [one.object for one in objects]
    assert names[:1] == [f"grid: float64[{1 << 10}, {1 << 12}]"], names
    assert objects[0].object_bytes.value == grid.nbytes and row.base is grid
    # What a process says of itself is not believed: variables of the program keep their names.
    assert "all" not in names
    assert "3 lines were not understood" in (recording.result.path / "run.json").read_text()


MARKED = """
import fathom, os, sys

@fathom.region
def assemble(): return sum(range(1000))

@fathom.region("step")
def step():
    with fathom.region("solve"):
        return assemble()

assert step() == step() == 499500
fathom.mark("here"); fathom.pause(); fathom.resume()
sys.exit(0 if "FATHOM_REGIONS" in os.environ else 7)
"""


def regions_are_marked():
    Path("marked.py").write_text(MARKED)
    source = {"PYTHONPATH": sys.path[0]}
    alone = subprocess.run([sys.executable, "marked.py"], env={**os.environ, **source})
    assert alone.returncode == 7, "without Fathom they do nothing"
    result = fathom.run_script("marked.py", env=source, **QUICK)
    # Whether this Fathom has the library for them.
    if result.summary.exit_code != 7:
        passes = {row.region: row.passes.value for row in result.view("regions")}
        assert passes == {"step": 2, "solve": 2, "assemble": 2}, passes


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        result = fathom.run([OBJECTS], dram_bandwidth_limits=False)
        figures_are_those_of_the_program(result)
        spun = fathom.run([SPIN, "--ms", "200"], env={"UNUSED": "1"}, **QUICK)
        programs_end_as_they_do(spun)
        results_that_begin_at_once_have_names_of_their_own()
        regions_are_marked()
        # Before the libraries for frames and plots are loaded: naming what is in those takes seconds.
        a_block_is_recorded()
        arrays_from_before_have_the_names_of_their_variables()
        views_are_rows_and_frames(result)
        parts_of_tables_have_names()
        pictures_are_drawn(result)
        os.chdir("/")


main()
