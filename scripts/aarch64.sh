#!/bin/sh
# Checks or builds Fathom for aarch64 on a machine of another kind: scripts/aarch64.sh check|build [CARGO-OPTIONS]
#
# Needs Debian's gcc-aarch64-linux-gnu and Rust's library for the target, both of scripts/packages.sh. With the only argument `ready` it
# says whether they are there. What not: tests of what was built (make aarch64).
set -eu
target=aarch64-unknown-linux-gnu
compiler=aarch64-linux-gnu-gcc

if [ "$*" = ready ]; then
    command -v "$compiler" && test -d "$(rustc --print sysroot)/lib/rustlib/$target"
    exit
fi
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=$compiler CC_aarch64_unknown_linux_gnu=$compiler
cd "$(dirname "$0")/.."
exec cargo "$@" --locked --target $target --target-dir "${CARGO_TARGET_DIR:-target}/aarch64" -p fathom
