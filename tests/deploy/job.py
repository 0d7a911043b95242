#!/usr/bin/env python3
"""The job of Kubernetes that adds results to a dataset is right, and its command does that.

    job.py FATHOM FOLDER RESULT...

What for: the schemas, what they cannot say, and the command of each index at once, as pods run it; a damaged result, one that is not in the
list, and the whole job again. What not: a cluster. The results are names in FOLDER.
"""
import os
import pathlib
import subprocess
import sys

from schemas import objects_of

fathom, folder, results = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3:]
[job] = objects_of("fathom-add.yaml")
assert job["kind"] == "Job" and job["spec"]["completionMode"] == "Indexed"
pod = job["spec"]["template"]["spec"]
[container] = pod["containers"]
assert pod["restartPolicy"] == "Never", "a policy for failures needs that"
[mount] = container["volumeMounts"]
assert mount["mountPath"] == container["workingDir"] and mount["name"] == pod["volumes"][0]["name"]
[no_second_time] = [rule["onExitCodes"] for rule in job["spec"]["podFailurePolicy"]["rules"] if rule["action"] == "FailIndex"]
assert no_second_time["containerName"] == container["name"] and no_second_time["operator"] == "In"

(folder / "results.txt").write_text("".join(f"{result}\n" for result in [*results, "damaged"]))
(folder / "damaged").mkdir()
(folder / "damaged/run.json").write_text("{")


def run(indexes):
    """The exit code of each index, and what was said."""
    path = f"{fathom.parent}:{os.environ['PATH']}"
    environment = [{**os.environ, "PATH": path, "JOB_COMPLETION_INDEX": str(index)} for index in indexes]
    pods = [subprocess.Popen(container["command"], cwd=folder, env=one, stderr=subprocess.PIPE, text=True) for one in environment]
    said = [one.communicate()[1] for one in pods]
    return [one.returncode for one in pods], said


def content():
    """All files of the dataset, by name and with their bytes."""
    return {path: path.read_bytes() for path in (folder / "dataset").rglob("*.parquet")}


codes, said = run(range(len(results) + 2))
assert codes == [0] * len(results) + [4, 2], (codes, said)
assert set(codes[-2:]) == set(no_second_time["values"])
assert f"results.txt has no line {len(results) + 2}" in said[-1] and "damaged was left out" in said[-2], said
assert len(list((folder / "dataset/quarantine").iterdir())) == 1
whole = subprocess.run([fathom, "dataset", "verify", "dataset"], cwd=folder, capture_output=True, text=True, check=True)
assert whole.stdout.startswith(f"dataset: {len(results)} results are whole"), whole.stdout
before = content()
assert run(range(len(results)))[0] == [0] * len(results) and content() == before
