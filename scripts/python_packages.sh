#!/bin/sh
# Makes sure that what tests use from PyPI is there, at the versions of tests/requirements.txt, in target/python; with the
# argument `engines` also query engines, tests/engines.txt: 1 GB and two minutes, too much for every run.
#
# Apart from packages.sh: nothing that Fathom is made of needs these. Fails with the reason where something cannot be had;
# tests that need it are then skipped.
set -eu
cd "$(dirname "$0")/.."

python=${CARGO_TARGET_DIR:-target}/python
failed=0
for wanted in requirements "$@"; do
    # Copied last, so that it is there only after a whole installation.
    if cmp -s "tests/$wanted.txt" "$python/$wanted.txt"; then continue; fi
    if ! command -v python3 >/dev/null; then
        echo "missing for some tests: python3" >&2
        exit 1
    fi
    if ! python3 -c 'import venv, ensurepip' 2>/dev/null; then
        echo "missing for some tests: python3-venv" >&2
        exit 1
    fi
    if [ $wanted = engines ] && ! command -v java >/dev/null; then
        echo "missing for tests of Spark: java (apt-get install openjdk-17-jre-headless)" >&2
    fi
    echo "installing: what tests use from PyPI ($wanted)"
    if [ ! -x "$python/bin/pip" ]; then python3 -m venv "$python"; fi
    if timeout 600 "$python/bin/pip" install --quiet --disable-pip-version-check --retries 1 --requirement "tests/$wanted.txt"; then
        cp "tests/$wanted.txt" "$python/$wanted.txt"
    else
        failed=1
    fi
done
exit $failed
