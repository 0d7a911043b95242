"""Pictures of a result for notebooks, by matplotlib; the flame graph is the one of `fathom export svg`."""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING, Any, Dict, Optional, cast

from ._values import Metric, View

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ._result import Result


class Svg(str):
    """A picture as SVG. A notebook shows it in a frame, as wide as there is room: its styles would else reach the rest of the page."""

    def _repr_html_(self) -> str:
        size = re.compile(r' width="(\d+)" height="(\d+)"')
        shape = "/".join(cast("re.Match[str]", size.search(self)).groups())
        data = base64.b64encode(size.sub("", self, count=1).encode()).decode()
        return f'<iframe src="data:image/svg+xml;base64,{data}" style="width:100%;aspect-ratio:{shape};border:0"></iframe>'


def _axes(ax: Optional[Axes]) -> Axes:
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError("this needs matplotlib: pip install 'fathom-profiler[plots]'") from error
    return cast("Axes", pyplot.subplots(layout="constrained")[1])


def _number(metric: Optional[Metric], part: str = "value") -> float:
    """NaN where it is unknown: a gap."""
    number = getattr(metric, part, None)
    return float("nan") if number is None else float(number)


def _rows(view: View) -> View:
    if not view:
        raise ValueError(view.empty or "the view has no rows")
    return view


def bandwidth(result: Result, ax: Optional[Axes]) -> Axes:
    rows = _rows(result.view("bandwidth"))
    ax = _axes(ax)
    # A bin is a step: its value holds from its start to its end, where the last one is repeated.
    times = [row.start for row in rows] + [rows[-1].end]
    for key, label in (("total", "read and write"), ("read", "read")):
        low, value, high = ([_number(row[key], part) for row in [*rows, rows[-1]]] for part in ("low", "value", "high"))
        (line,) = ax.step(times, value, where="post", label=label)
        ax.fill_between(times, low, high, step="post", alpha=0.2, color=line.get_color(), linewidth=0)
    reachable = _number(result.summary.dram_bandwidth.reachable)
    if reachable == reachable:
        ax.axhline(reachable, color="grey", linestyle="--", label="reachable by as many threads")
    ax.set(xlabel="time, s", ylabel="GB/s", ylim=(0, None), title="Traffic with memory, estimated; 95 % intervals")
    ax.legend()
    return ax


def objects(result: Result, ax: Optional[Axes], limit: int, options: Dict[str, Any]) -> Axes:
    rows = [row for row in _rows(result.view("objects", limit=limit, **options)) if row.stall_percent.value is not None]
    if not rows:
        raise ValueError("no object's stall time is known")
    ax = _axes(ax)
    values = [row.stall_percent.value for row in rows]
    ends = [[abs(_number(row.stall_percent, part) - row.stall_percent.value) for row in rows] for part in ("low", "high")]
    names = [row.object if len(row.object) <= 40 else f"{row.object[:19]}…{row.object[-20:]}" for row in rows]
    places = range(len(rows))
    ax.barh(places, values, xerr=ends, capsize=3, error_kw={"alpha": 0.6})
    ax.set_yticks(places, names)
    ax.invert_yaxis()
    ax.set(xlabel="% of the CPU time at its accesses", xlim=(0, None), title="Memory objects; 95 % intervals")
    return ax
