#!/usr/bin/env python3
"""The figures of a dataset against the views of `fathom report --format json` of the same result.

figures.py FOLDER: FOLDER has the dataset `ds` and the views summary.json, hotspots.json and source-line.json of its result r1.
What not: questions (engines.py). Ends with 1 and says what differs.
"""

import json
import sys
from pathlib import Path

import duckdb

folder = Path(sys.argv[1])
RUN = f"(SELECT run FROM read_parquet('{folder}/ds/runs/**/*.parquet') WHERE result = 'r1')"


def rows(table, names):
    """Figures of r1: the key made of `names` and the figure, to value, low, high and evidence."""
    keys = ", ".join([*names, "figure"])
    found = duckdb.sql(
        f"SELECT {keys}, value, low, high, evidence, variance FROM read_parquet('{folder}/ds/{table}/**/*.parquet')"
        f" WHERE run = {RUN}").fetchall()
    for row in found:
        value, low, high, evidence, variance = row[-5:]
        if evidence is None:
            assert value is None and low is None and high is None and variance is None, row
        elif low is None or high is None:
            assert variance is None, row
        else:
            assert abs(variance - ((high - low) / 3.919928) ** 2) <= 1e-6 * variance, row
    return {row[:-5]: row[-5:-1] for row in found}


def metric(one):
    return (one["value"], one["low"], one["high"], one["evidence"])


def metrics(part, path=""):
    """All metrics of the summary by path, as `figures` has them."""
    if isinstance(part, dict) and "evidence" in part:
        yield (path,), metric(part)
    elif isinstance(part, dict):
        for name, one in part.items():
            yield from metrics(one, f"{path}.{name}" if path else name)


def view(name, keys, figures):
    for row in json.loads((folder / f"{name}.json").read_text())["rows"]:
        for figure in figures:
            yield (*(row[key] for key in keys), figure), metric(row[figure])


def compare(table, names, expected):
    found, expected = rows(table, names), dict(expected)
    assert expected, f"{table}: the view is empty"
    missing = expected.keys() - found.keys()
    assert not missing, f"{table} lacks {sorted(missing, key=str)[:3]}"
    for key, one in expected.items():
        assert found[key] == one, f"{table} {key}: {found[key]} is not {one}"


compare("figures", [], metrics(json.loads((folder / "summary.json").read_text())))
place = ["function", "file", "line", "module"]
compare("functions", place, view("hotspots", place, ["cpu_time", "total_time"]))
compare("lines", ["file", "line"], view("source-line", ["file", "line"], ["cpu_time"]))
