#!/usr/bin/env python3
"""Writes a file of a dataset again without its last two columns: as an earlier version, which did not have them, would have.

older.py FILE. What not: the version in its metadata. For tests of datasets of two versions.
"""

import sys

import duckdb

path = sys.argv[1]
duckdb.sql(f"CREATE TABLE whole AS SELECT * FROM read_parquet('{path}', hive_partitioning = false)")
columns = [row[0] for row in duckdb.sql("DESCRIBE whole").fetchall()][:-2]
assert "note" not in columns and "evidence" in columns, columns
duckdb.sql(f"COPY (SELECT {', '.join(columns)} FROM whole) TO '{path}' (FORMAT parquet)")
