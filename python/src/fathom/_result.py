"""A result directory: its views as rows and data frames, its tables, its pictures. Everything comes from `fathom report` and its kin;
nothing is computed here."""

from __future__ import annotations

import importlib
import os
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Sequence, Union, cast

from ._command import ask
from ._values import Record, View, parse

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow
    from matplotlib.axes import Axes

    from ._plots import Svg
    from .summary import Finding, Summary

#: A view by name; one that was asked for; or a Parquet file, as of `Result.tables`.
Source = Union[str, View, "os.PathLike[str]"]


class Result:
    """A result, by its directory. `print(result)` shows the first screen; so does a notebook."""

    def __init__(self, path: Union[str, os.PathLike[str]]) -> None:
        self.path = Path(path).absolute()

    @cached_property
    def summary(self) -> Summary:
        """All figures of the summary: `summary.dram_bandwidth.average.value`."""
        return cast("Summary", parse(self._report("summary", "json")))

    @property
    def findings(self) -> List[Finding]:
        """What is slow for a known reason, what to change, and what that would save."""
        return self.summary.findings

    def view(
        self,
        name: str,
        *,
        group: Union[str, Sequence[str], None] = None,
        filter: Optional[Mapping[str, object]] = None,
        limit: Optional[int] = None,
        **options: object,
    ) -> View:
        """The rows of a view, as `fathom report NAME` has them: all of them without a `limit`. `group`: keys. `filter`: keys and what they
        must match, as text. Other options of the command by their names: `sort`, `columns`, `bands`, `topology`, `wrappers`."""
        words = [f"--filter={key}={value}" for key, value in (filter or {}).items()]
        for option, value in {"group": group, "limit": 1_000_000_000 if limit is None else limit, **options}.items():
            if value is not None:
                words.append(f"--{option}={value if isinstance(value, (str, int, os.PathLike)) else _joined(value)}")
        of = parse(self._report(name, "json", *words))
        # Of a text people read the beginning, and its own limit is meant for that.
        shown = words if limit is not None else [word for word in words if not word.startswith("--limit=")]
        return View(of, lambda format: self._report(name, format, *shown))

    def to_pandas(self, view: Source, **options: Any) -> pandas.DataFrame:
        """A view or a table as a pandas data frame. A figure has its value, `_low`, `_high` and `_evidence` as columns, NaN where it is
        unknown; `attrs` has units and notes."""
        module = _package("pandas", "pandas")
        if isinstance(view, os.PathLike):
            return cast("pandas.DataFrame", module.read_parquet(view))
        view, flat = self._flat(view, options)
        frame = module.DataFrame(flat)
        of_metrics = [key for key in flat if f"{key}_evidence" in flat]
        frame = frame.astype({f"{key}{end}": "float64" for key in of_metrics for end in ("", "_low", "_high")})
        frame.attrs = {"units": {column.key: column.unit for column in view.columns if column.unit}, "notes": view.notes}
        return cast("pandas.DataFrame", frame)

    def to_polars(self, view: Source, **options: Any) -> polars.DataFrame:
        """The same as a Polars data frame, null where a figure is unknown."""
        module = _package("polars", "polars")
        if isinstance(view, os.PathLike):
            return cast("polars.DataFrame", module.read_parquet(view))
        return cast("polars.DataFrame", module.DataFrame(self._flat(view, options)[1], strict=False))

    def to_arrow(self, view: Source, **options: Any) -> pyarrow.Table:
        """The same as an Arrow table."""
        if isinstance(view, os.PathLike):
            return cast("pyarrow.Table", _package("pyarrow.parquet", "arrow").read_table(view))
        return cast("pyarrow.Table", _package("pyarrow", "arrow").table(self._flat(view, options)[1]))

    @property
    def tables(self) -> Dict[str, Path]:
        """The recorded facts: Parquet files by the name of their table. docs/format/result-directory.md has their columns."""
        return {file.stem: file for file in sorted(self.path.glob("*.parquet"))}

    def diff(self, *others: Result, view: str = "hotspots", gates: Sequence[str] = (), **options: object) -> Diff:
        """What changed from this result to others, recorded later or elsewhere. `gates`: limits as `elapsed<=5%`; other options of `fathom
        diff` by their names: `metric`, `group`, `limit`."""
        words = [f"--{option}={value}" for option, value in {"view": view, **options}.items()]
        words += [f"--gate={gate}" for gate in gates]
        sides = ["--base", str(self.path), "--new", *(str(other.path) for other in others)]
        return Diff(parse(ask("diff", "--format=json", *words, *sides, may_be=1)))

    def export(self, format: str, output: Union[str, os.PathLike[str]], *, figure: Optional[str] = None) -> Path:
        """Writes it for another viewer: pprof, speedscope, firefox, folded, perfetto, csv, svg; or `html`, the page as one file."""
        words = ["html", str(self.path)] if format == "html" else ["export", format, self._option()]
        ask(*words, f"--output={os.fspath(output)}", *([f"--figure={figure}"] if figure else []))
        return Path(output)

    def plot_bandwidth(self, ax: Optional[Axes] = None) -> Axes:
        """Traffic with memory over time, with its interval."""
        from ._plots import bandwidth

        return bandwidth(self, ax)

    def plot_objects(self, ax: Optional[Axes] = None, *, limit: int = 10, **options: Any) -> Axes:
        """The share of the CPU time that waits for each memory object, with its interval."""
        from ._plots import objects

        return objects(self, ax, limit, options)

    def plot_flame(self, figure: Optional[str] = None) -> Svg:
        """A flame graph; `figure` as of `fathom export svg`: cpu, alloc_space and others."""
        from ._plots import Svg

        return Svg(ask("export", "svg", self._option(), *([f"--figure={figure}"] if figure else [])))

    def _report(self, view: str, format: str, *words: str) -> str:
        return ask("report", view, self._option(), f"--format={format}", *words)

    def _option(self) -> str:
        """`--result`, by the shorter name: reports show it."""
        relative = os.path.relpath(self.path)
        return f"--result={self.path if relative.startswith('..') else relative}"

    def _flat(self, view: Source, options: Dict[str, Any]) -> "tuple[View, Dict[str, List[Any]]]":
        view = view if isinstance(view, View) else self.view(cast(str, view), **options)
        return view, view.flat()

    def __str__(self) -> str:
        return self._report("summary", "text")

    def __repr__(self) -> str:
        return f"fathom.Result({str(self.path)!r})"

    def _repr_markdown_(self) -> str:
        return self._report("summary", "markdown")


class Diff:
    """A comparison: `totals` has the whole runs, `table` the rows of the view, `gates` what became of each gate."""

    def __init__(self, of: Record) -> None:
        self.totals, self.table = View(of["totals"]), View(of["table"])
        self.gates: List[Record] = of["gates"]
        self.notes: List[str] = of["notes"]

    @property
    def passed(self) -> bool:
        """Whether no gate failed. One that the runs do not decide has not failed."""
        return all(gate["outcome"] != "failed" for gate in self.gates)


def _joined(value: object) -> str:
    return ",".join(map(str, cast("Sequence[object]", value)))


def _package(name: str, extra: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"this needs {name}: pip install 'fathom-profiler[{extra}]'") from error
