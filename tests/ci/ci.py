#!/usr/bin/env python3
"""The steps of ci/ run as GitHub and GitLab would run them, on a program whose page faults are given.

What for: the shell of ci/github/action.yml and ci/gitlab/fathom.yml as it stands there; both files against the schemas of
their services. What not: actions of others (`uses`); the cache is a folder that stays between two jobs.

Usage: ci.py FATHOM TOUCH      TOUCH: tests/programs/build/touch_pages, which faults as often as it is asked to.
                              Times would decide nothing on a machine whose speed changes.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

CI = Path(__file__).resolve().parents[2] / "ci"
GATES = "page_faults.minor<=50%"


class Loader(yaml.SafeLoader):
    """GitLab's own tag, kept as a list."""


Loader.add_constructor("!reference", lambda loader, node: loader.construct_sequence(node))


def value(expression, contexts):
    """An expression of GitHub's: names, texts, `==` and `&&`; nothing else stands in the action."""
    if "&&" in expression:
        return all(value(part, contexts) for part in expression.split("&&"))
    if "==" in expression:
        left, right = (value(part, contexts) for part in expression.split("=="))
        return left == right
    expression = expression.strip()
    text = re.fullmatch(r"'(.*)'", expression)
    if text:
        return text[1]
    found = contexts
    for name in expression.split("."):
        found = found[name]
    return found


def filled(text, contexts):
    return re.sub(r"\$\{\{(.*?)\}\}", lambda found: str(value(found[1], contexts)), str(text))


def shell(arguments, script, environment, folder):
    done = subprocess.run(arguments + ["-c", script], cwd=folder, capture_output=True, text=True,
                          env={**os.environ, **environment})
    return done.returncode, done.stdout + done.stderr


def github(folder, event, **inputs):
    """One job with the action as its step: exit code, job summary, outputs, what was printed."""
    action = yaml.safe_load((CI / "github/action.yml").read_text())
    given = {name: one.get("default") for name, one in action["inputs"].items()}
    given.update({name.replace("_", "-"): text for name, text in inputs.items()})
    contexts = {
        "inputs": given,
        "github": {"action_path": str(CI / "github"), "event_name": event,
                   "ref_name": "main" if event == "push" else "topic",
                   "event": {"repository": {"default_branch": "main"}}},
    }
    files = {name: folder / name for name in ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT")}
    for file in files.values():
        file.write_text("")
    code, printed = 0, ""
    for step in action["runs"]["steps"]:
        if "uses" in step or ("if" in step and not value(step["if"], contexts)):
            continue
        assert step["shell"] == "bash", step
        environment = {name: filled(text, contexts) for name, text in step.get("env", {}).items()}
        environment.update({name: str(file) for name, file in files.items()}, HOME=str(folder))
        code, output = shell(["bash", "--noprofile", "--norc", "-eo", "pipefail"],
                             filled(step["run"], contexts), environment, folder)
        printed += output
        if code:
            break
    outputs = dict(line.split("=", 1) for line in files["GITHUB_OUTPUT"].read_text().splitlines())
    return code, files["GITHUB_STEP_SUMMARY"].read_text(), outputs, printed


def gitlab(folder, job, **variables):
    """One job of the template: exit code and what was printed."""
    template = yaml.load((CI / "gitlab/fathom.yml").read_text(), Loader)
    one = {**template[template[job]["extends"]], **template[job]}
    environment = {**template["variables"], "FATHOM_GATE": str(CI / "gate.sh"), **variables}
    code, printed = shell(["sh", "-e"], "\n".join(one["script"]), environment, folder)
    for line in one.get("after_script", []):
        printed += shell(["sh", "-e"], line, environment, folder)[1]
    return code, printed


def check(holds, *seen):
    if not holds:
        sys.exit("\n".join(str(one) for one in ("failed:", *seen)))


def github_jobs(folder, fathom, touch):
    common = {"fathom": fathom, "gates": GATES, "runs": "3", "analysis": "hotspots"}
    short, long = f"'{touch}' --pages 2000", f"'{touch}' --pages '4000'"
    code, summary, outputs, printed = github(folder, "push", command=short, **common)
    check(code == 0 and "No baseline of this kind of machine" in summary, code, summary, printed)
    # Another push: the baseline is there, and the gate holds.
    code, summary, outputs, printed = github(folder, "push", command=short, **common)
    check(code == 0 and outputs["exit-code"] == "0", code, outputs, printed)
    check("**holds**" in summary and "| whole run | base | new |" in summary, summary)
    # A pull request that has twice the page faults fails, with a report.
    code, summary, outputs, printed = github(folder, "pull_request", command=long, **common)
    check(code == 1 and outputs["exit-code"] == "1" and "**failed**" in summary, code, summary, printed)
    check(summary.count("<details>") == summary.count("</details>") == 1, summary)
    check(len(summary.encode()) < 65536, "GitHub's comments hold 65,536 characters", len(summary))
    report = folder / ".fathom/default/report"
    check("<!doctype html>" in (report / "page.html").read_text()[:200].lower(), "no page")
    check((report / "diff.json").read_text().startswith("{"), "no JSON")
    # It is not the baseline of the next one. On the default branch it is, though the gate fails.
    check(github(folder, "pull_request", command=long, **common)[0] == 1, "the baseline was replaced")
    check(github(folder, "push", command=long, **common)[0] == 1, "the gate holds")
    check(github(folder, "pull_request", command=long, **common)[0] == 0, "the baseline was kept")
    # Without a program it takes the one that the cache of the last job has brought.
    built = folder / ".cache/fathom-build/bin/fathom"
    built.parent.mkdir(parents=True)
    built.symlink_to(fathom)
    own = {**common, "fathom": "", "command": long}
    code, summary, outputs, printed = github(folder, "pull_request", **own)
    check(code == 0 and re.fullmatch("[0-9a-f]{16}", outputs["hash"]), code, outputs, printed)
    # Both builds in one job, whatever the cache has.
    both = {"command": long, "base_command": short, **common}
    code, summary, _, printed = github(folder, "pull_request", **both)
    check(code == 1 and "**failed**" in summary, code, summary, printed)
    check("All runs of one side were recorded before" not in summary, summary)
    # A program that fails is no measurement, and a gate with an unknown figure no gate.
    code, summary, _, printed = github(folder, "pull_request", command="sh -c 'exit 7'", **common)
    check(code == 7 and summary == "", code, printed)
    code, _, _, printed = github(folder, "pull_request", **{**common, "command": short, "gates": "joules<=1%"})
    check(code == 2 and "joules" in printed, code, printed)


def gitlab_jobs(folder, fathom, touch):
    common = {"FATHOM": fathom, "FATHOM_GATES": GATES, "FATHOM_RUNS": "3", "FATHOM_ANALYSIS": "hotspots"}
    short, long = f"'{touch}' --pages 2000", f"'{touch}' --pages 4000"
    code, printed = gitlab(folder, "fathom-baseline", FATHOM_COMMAND=short, **common)
    check(code == 0 and "No baseline" in printed, code, printed)
    code, printed = gitlab(folder, "fathom", FATHOM_COMMAND=long, **common)
    check(code == 1 and "**failed**" in printed, code, printed)
    code, printed = gitlab(folder, "fathom", FATHOM_COMMAND=short, **common)
    check(code == 0 and "**holds**" in printed, code, printed)


def schemas():
    for schema, more, file in (("vendor.github-actions", [], "github/action.yml"),
                               ("vendor.gitlab-ci", ["--data-transform", "gitlab-ci"], "gitlab/fathom.yml")):
        done = subprocess.run([sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, *more, CI / file],
                              capture_output=True, text=True)
        check(done.returncode == 0, file, done.stdout, done.stderr)


def main():
    fathom, touch = sys.argv[1:]
    schemas()
    folder = Path(tempfile.mkdtemp(prefix="fathom-ci-"))
    try:
        for jobs in (github_jobs, gitlab_jobs):
            own = folder / jobs.__name__
            own.mkdir()
            jobs(own, fathom, touch)
    finally:
        shutil.rmtree(folder)
    print("ci: the jobs of GitHub and GitLab ended as they must")


main()
