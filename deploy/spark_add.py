#!/usr/bin/env python3
"""Adds results to a dataset as a job of Spark: a task for each result, which runs `fathom dataset add` where an executor is.

    spark-submit deploy/spark_add.py DATASET RESULT...

What for: opening a result and computing its figures, the heavy step, is a map over results. What not: questions, which
`fathom across --engine spark` asks. Executors need the program `fathom`, and the dataset and the results at the same paths. Spark runs a
task again that failed or whose executor died; the same command goes on where one stopped, because a result that is there is not added again.
A result that cannot be read is left out, with its reason in DATASET/quarantine; the exit code is then 4, as that of `fathom dataset add`.
"""
import argparse
import os
import subprocess
import sys

from pyspark.sql import SparkSession

#: Left out: running it again changes nothing.
DAMAGED = 4


def add(command, result):
    """What was said of a result that was left out; None where it is in the dataset."""
    done = subprocess.run([*command, result], capture_output=True, text=True)
    if done.returncode not in (0, DAMAGED):
        raise RuntimeError(f"{result} was not added (exit code {done.returncode}): {done.stderr.strip()}")
    return done.stderr if done.returncode == DAMAGED else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", metavar="DATASET", help="a directory, or s3://BUCKET/PREFIX")
    parser.add_argument("results", metavar="RESULT", nargs="+")
    parser.add_argument("--label", action="append", default=[], metavar="NAME=VALUE", help="keep this with each result, e.g. rack=r12")
    parser.add_argument("--fathom", default="fathom", metavar="PROGRAM", help="the program where the executors are")
    options = parser.parse_args()
    # An executor has a directory of its own.
    dataset = options.dataset if "://" in options.dataset else os.path.abspath(options.dataset)
    results = [os.path.abspath(result) for result in options.results]
    labels = [word for label in options.label for word in ("--label", label)]
    command = [options.fathom, "dataset", "add", "--quiet", *labels, dataset]

    spark = SparkSession.builder.appName("fathom dataset add").getOrCreate()
    said = spark.sparkContext.parallelize(results, len(results)).map(lambda result: add(command, result)).collect()
    spark.stop()
    left_out = [text for text in said if text is not None]
    sys.stderr.write("".join(left_out))
    print(f"{dataset}: {len(results) - len(left_out)} of {len(results)} results are in it")
    sys.exit(DAMAGED if left_out else 0)


if __name__ == "__main__":
    main()
