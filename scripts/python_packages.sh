#!/bin/sh
# Makes sure that what tests use from PyPI is there, at the versions of tests/requirements.txt, in target/python.
#
# Apart from packages.sh: nothing that Fathom is made of needs these. Fails with the reason where something cannot be had;
# tests that need it are then skipped.
set -eu
cd "$(dirname "$0")/.."

python=${CARGO_TARGET_DIR:-target}/python
wanted=tests/requirements.txt
# Copied last, so that it is there only after a whole installation.
if cmp -s "$wanted" "$python/requirements.txt"; then exit 0; fi
if ! command -v python3 >/dev/null; then
    echo "missing for some tests: python3" >&2
    exit 1
fi
if ! python3 -c 'import venv, ensurepip' 2>/dev/null; then
    echo "missing for some tests: python3-venv" >&2
    exit 1
fi
echo "installing: what tests use from PyPI"
python3 -m venv "$python"
timeout 300 "$python/bin/pip" install --quiet --disable-pip-version-check --retries 1 --requirement "$wanted"
cp "$wanted" "$python/requirements.txt"
