"""Values of a report as Python has them: figures with interval and evidence, records with attributes, tables of rows."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from typing import Any, Callable, Dict, List, Optional, cast


@dataclass(frozen=True)
class Metric:
    """A figure. `value` is None where it is not available, never 0; `note` then says why."""

    value: Optional[float]
    unit: str
    #: Ends of the 95 % interval; None where none can be stated.
    low: Optional[float]
    high: Optional[float]
    #: How it was obtained: counted, sampled, timed, traced, simulated, estimated, calibrated or modelled.
    evidence: Optional[str]
    samples: int
    lost: int
    note: Optional[str]

    def __str__(self) -> str:
        if self.value is None:
            return f"n/a: {self.note}" if self.note else "n/a"
        known = self.low is not None and self.high is not None and self.low != self.high
        interval = f"{self.low:.4g} to {self.high:.4g}, " if known else ""
        return f"{self.value:.4g} {self.unit} ({interval}{self.evidence})"


class Record(Dict[str, Any]):
    """An object of the JSON: its values are attributes, too."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"there is no {name!r} here; there are {', '.join(self)}") from None

    def __dir__(self) -> List[str]:
        return [*super().__dir__(), *self]


def parse(text: str) -> Any:
    """JSON as metrics, records and plain values."""
    return json.loads(text, object_hook=_as_value)


def _as_value(of: Dict[str, Any]) -> Any:
    if of.keys() >= {"low", "high", "evidence"}:
        return Metric(**{field.name: cast(Any, of.get(field.name)) for field in fields(Metric)})
    return Record(of)


class View(List[Record]):
    """The rows of a view or of a comparison. Cells are metrics, texts, lists or None."""

    def __init__(self, of: Dict[str, Any], text: Optional[Callable[[str], str]] = None) -> None:
        super().__init__(of["rows"])
        #: Of each column `key`, `label` and `unit`.
        self.columns: List[Record] = of["columns"]
        #: The row of totals.
        self.total: Optional[Record] = of.get("total")
        #: What a reader must know of these figures.
        self.notes: List[str] = of.get("notes", [])
        #: Why there are no rows.
        self.empty: Optional[str] = of.get("empty")
        self._text = text

    def flat(self) -> Dict[str, List[Any]]:
        """Columns as `fathom report --format csv` has them: a figure is its value, `_low`, `_high` and `_evidence`."""
        columns: Dict[str, List[Any]] = {}
        for key, cells in ((column["key"], [row.get(column["key"]) for row in self]) for column in self.columns):
            if any(isinstance(cell, Metric) for cell in cells):
                columns[key] = [cell and cell.value for cell in cells]
                for part in ("low", "high", "evidence"):
                    columns[f"{key}_{part}"] = [cell and getattr(cell, part) for cell in cells]
            else:
                columns[key] = cells
        return columns

    def __str__(self) -> str:
        return self._text("text") if self._text else list.__str__(self)

    def _repr_markdown_(self) -> Optional[str]:
        return self._text("markdown") if self._text else None
