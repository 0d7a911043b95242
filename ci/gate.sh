#!/bin/sh
# The steps of a performance gate in CI: record a program, compare it with a baseline, leave a report.
#
# What for: the GitHub action (ci/github/action.yml) and the GitLab template (ci/gitlab/fathom.yml) call the same steps.
# What not: keeping the baseline from run to run, which is their part: it is the folder $FATHOM_STORE/base.
#
#   gate.sh record     records $FATHOM_COMMAND, and the baseline too where $FATHOM_BASE_COMMAND is set
#   gate.sh compare    writes $FATHOM_STORE/report: summary.md, diff.json, page.html; keeps the exit code of the gates
#   gate.sh verdict    ends with that code: 0 they hold, 1 one failed, others as of `fathom diff`
#   gate.sh keep       makes the new runs the baseline of this kind of machine
#
# Settings, all in the environment:
#   FATHOM              the program; default fathom
#   FATHOM_COMMAND      what to run, a line of words as a shell takes them
#   FATHOM_BASE_COMMAND the same of the build to compare with, if both are here: the two are recorded alternately
#   FATHOM_GATES        a gate per line, as in elapsed<=5%
#   FATHOM_ANALYSIS     default memory-access
#   FATHOM_RUNS         runs per side; default 5
#   FATHOM_STORE        default .fathom
set -eu

FATHOM=${FATHOM:-fathom}
store=${FATHOM_STORE:-.fathom}
runs=${FATHOM_RUNS:-5}
report=$store/report

# Times of two kinds of machine do not compare, and CI gives what it has: each kind has its own baseline.
machine=$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -n 1 | tr -cs '[:alnum:]\n' '-')$(nproc)
base=$store/base/$machine

one() { # RESULT COMMAND
    directory=$1
    # The line is the user's own, from the settings of the job: quotes in it are a shell's.
    eval "set -- $2"
    "$FATHOM" collect "${FATHOM_ANALYSIS:-memory-access}" -q -r "$directory" -- "$@"
}

case ${1:-} in
record)
    : "${FATHOM_COMMAND:?is not set: what to run}"
    rm -rf "$store/new" "$report"
    mkdir -p "$store/new"
    if [ -n "${FATHOM_BASE_COMMAND:-}" ]; then
        rm -rf "$base"
        mkdir -p "$base"
    fi
    at=1
    while [ "$at" -le "$runs" ]; do
        # Alternately: a machine whose speed drifts does not look like a change.
        if [ -n "${FATHOM_BASE_COMMAND:-}" ]; then one "$base/$at" "$FATHOM_BASE_COMMAND"; fi
        one "$store/new/$at" "$FATHOM_COMMAND"
        at=$((at + 1))
    done
    ;;
compare)
    mkdir -p "$report"
    code=0
    if [ -d "$base" ]; then
        set -- diff --base "$base"/* --new "$store/new"/*
        old_ifs=$IFS
        IFS='
'
        set -f
        for gate in ${FATHOM_GATES:-}; do set -- "$@" --gate "$gate"; done
        set +f
        IFS=$old_ifs
        "$FATHOM" "$@" --format markdown >"$report/summary.md" || code=$?
        # More than a gate that failed: there is nothing to show.
        if [ "$code" -gt 1 ]; then exit "$code"; fi
        "$FATHOM" "$@" --format json >"$report/diff.json" 2>/dev/null || true
        "$FATHOM" html "$store/new/1" --with "$base/1" -o "$report/page.html"
    else
        echo "No baseline of this kind of machine ($machine) yet: nothing to compare with." >"$report/summary.md"
        "$FATHOM" html "$store/new/1" -o "$report/page.html"
    fi
    printf '\n<details><summary>The first of the new runs</summary>\n\n' >>"$report/summary.md"
    "$FATHOM" report summary -r "$store/new/1" --format markdown >>"$report/summary.md"
    printf '\n</details>\n' >>"$report/summary.md"
    echo "$code" >"$report/exit-code"
    ;;
verdict)
    exit "$(cat "$report/exit-code")"
    ;;
keep)
    rm -rf "$base"
    mkdir -p "$store/base"
    cp -R "$store/new" "$base"
    ;;
*)
    echo "usage: gate.sh record|compare|verdict|keep; the head of the file says more" >&2
    exit 2
    ;;
esac
