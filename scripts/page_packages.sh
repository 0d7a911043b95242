#!/bin/sh
# Makes sure that what the tests of the page need is there: Chromium, Node and npm, and the packages of `ui`, at the
# versions and with the hashes that ui/package-lock.json pins.
#
# Apart from packages.sh: nothing that Fathom is made of needs these, they are large, and some systems have no Chromium
# for apt (Ubuntu's is a snap). Fails with the reason where something cannot be had; tests that need it are then skipped.
set -eu
cd "$(dirname "$0")/.."

has_chromium() {
    command -v chromium || command -v chromium-browser || command -v google-chrome
}

missing=""
need() { # PACKAGE COMMAND...: the package is missing unless the command succeeds
    package=$1
    shift
    if ! "$@" >/dev/null 2>&1; then missing="$missing $package"; fi
}
need chromium has_chromium
need nodejs command -v node
need npm command -v npm
if [ -n "$missing" ]; then
    if ! command -v apt-get >/dev/null; then
        echo "missing for the tests of the page (names of Debian's packages):$missing" >&2
        exit 1
    elif [ "$(id -u)" != 0 ]; then
        echo "missing for the tests of the page:$missing; type:" >&2
        echo "  sudo apt-get -qq update && sudo apt-get -qq install --yes --no-install-recommends$missing" >&2
        exit 1
    fi
    echo "installing:$missing"
    export DEBIAN_FRONTEND=noninteractive
    apt-get -qq update
    apt-get -qq install --yes --no-install-recommends $missing
fi

# npm writes this list last, so that it is there only after a whole installation.
if [ ! -e ui/node_modules/.package-lock.json ] || [ ui/package-lock.json -nt ui/node_modules/.package-lock.json ]; then
    echo "installing: the packages of ui"
    # No script of a package runs; without a network npm would try for minutes.
    (cd ui && timeout 300 npm ci --ignore-scripts --no-audit --no-fund --loglevel error --fetch-retries 1)
fi
