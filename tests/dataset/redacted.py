#!/usr/bin/env python3
"""No text of a dataset has any of these words.

    redacted.py DATASET WORD...

What for: `--redact`. It reads every text of every row with DuckDB, because the files are compressed.
"""
import pathlib
import sys

import duckdb

dataset, words = pathlib.Path(sys.argv[1]), sys.argv[2:]
texts = 0
for table in sorted(path for path in dataset.iterdir() if path.is_dir() and path.name != "quarantine"):
    rows = duckdb.connect().execute(f"SELECT * FROM read_parquet('{table}/**/*.parquet', union_by_name=true)").fetchall()
    for row in rows:
        for value in row:
            if isinstance(value, str):
                texts += 1
                found = [word for word in words if word in value]
                assert not found, f"{table.name} has {found}: {value}"
names = [path.name for path in dataset.rglob("*")]
assert not any(word in name for word in words for name in names), names
assert texts > 50, f"only {texts} texts"
