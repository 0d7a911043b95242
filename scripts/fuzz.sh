#!/bin/sh
# Runs every fuzz target for $1 seconds (30), one after the other; stops at the first that fails.
# Needs a nightly compiler and cargo-fuzz: rustup toolchain install nightly; cargo install --locked cargo-fuzz
set -eu
cd "$(dirname "$0")/../fuzz"
seconds=${1:-30}

cargo run --quiet --example seeds
for target in $(cargo +nightly fuzz list); do
    echo "== $target"
    # A timeout of 10 s for one input: all work is bounded by the size of the input, and the inputs are small.
    cargo +nightly fuzz run "$target" -- -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 \
        -max_len=65536 -print_final_stats=1 -verbosity=0
done
rm -rf "${TMPDIR:-/tmp}"/fathom-fuzz-*
