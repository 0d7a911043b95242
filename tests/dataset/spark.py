#!/usr/bin/env python3
"""Answers questions in one Spark session of two workers, since each start of Spark takes 10 s and more.

spark.py FOLDER: each NAME.sql there (what `fathom across --sql` prints) becomes NAME.jsonl: a JSON object per row. The settings are those
of `fathom across` (crates/cli/src/commands/across/engine.rs).
"""

import sys
from pathlib import Path

from pyspark.sql import SparkSession

spark = (SparkSession.builder.master("local-cluster[2,1,1024]")
         .config("spark.sql.catalogImplementation", "in-memory")
         .config("spark.sql.sources.partitionColumnTypeInference.enabled", "false")
         .config("spark.ui.enabled", "false")
         .config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
         .config("spark.sql.shuffle.partitions", "2")
         .getOrCreate())
for file in sorted(Path(sys.argv[1]).glob("*.sql")):
    for statement in file.read_text().split(";\n"):
        if statement.strip():
            found = spark.sql(statement)
    file.with_suffix(".jsonl").write_text("".join(row[0] + "\n" for row in found.collect()))
spark.stop()
