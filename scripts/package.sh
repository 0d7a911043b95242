#!/bin/sh
# Makes a Debian package, a tarball or a Python wheel of a built Fathom. The first two have man pages, shell completions, the gate for CI,
# and the service of `fathom watch`, which is not started; the wheel has the package of python/.
#
#   scripts/package.sh deb|tarball|wheel BINARY DIRECTORY
#
# Writes DIRECTORY/fathom_VERSION_ARCHITECTURE.deb, fathom-VERSION-MACHINE.tar.gz or fathom_profiler-VERSION-py3-none-PLATFORM.whl, and
# prints its name. The same sources and binary give the same bytes. What not: building the binary (`make deb`, `make tarball`, `make wheel`),
# and a place in a distribution.
set -eu
kind=$1
binary=$2
out=$3
cd "$(dirname "$0")/.."

version=$("$binary" --version | cut -d' ' -f2)
# Of the last commit, so that a package does not depend on when it was made.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
export SOURCE_DATE_EPOCH
# Help and pages are as wide as the terminal: not so in a package.
export COLUMNS=100
umask 022
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
# The root of the package: dpkg would give its mode to the root of the system.
chmod 755 "$stage"
mkdir -p "$out"

# usr-like tree in $1.
fill() {
    share=$1/share
    mkdir -p "$1/bin"
    # Line tables are four fifths of it; a backtrace keeps the names of functions.
    strip --strip-debug -o "$1/bin/fathom" "$binary"
    chmod 755 "$1/bin/fathom"
    install -D -m 755 ci/gate.sh "$share/fathom/ci/gate.sh"
    install -D -m 644 deploy/fathom-watch.service "$1/lib/systemd/system/fathom-watch.service"
    install -D -m 644 deploy/fathom-watch.yaml "$share/fathom/deploy/fathom-watch.yaml"
    install -D -m 644 deploy/fathom-add.yaml "$share/fathom/deploy/fathom-add.yaml"
    install -D -m 755 deploy/spark_add.py "$share/fathom/deploy/spark_add.py"
    install -D -m 644 -t "$1/include" include/fathom.h include/fathom.f90
    install -D -m 644 include/rust/Cargo.toml "$share/fathom/rust/Cargo.toml"
    install -D -m 644 include/rust/src/lib.rs "$share/fathom/rust/src/lib.rs"
    mkdir -p "$share/man/man1" "$share/bash-completion/completions" "$share/zsh/vendor-completions" \
        "$share/fish/vendor_completions.d" "$share/doc/fathom"
    "$binary" man "$share/man/man1"
    gzip -9n "$share"/man/man1/*
    "$binary" completions bash >"$share/bash-completion/completions/fathom"
    "$binary" completions zsh >"$share/zsh/vendor-completions/_fathom"
    "$binary" completions fish >"$share/fish/vendor_completions.d/fathom.fish"
    # Of Intel's tables that are in the program, their notice.
    { cat LICENSE-MIT LICENSE-APACHE && grep '^#' crates/analysis/src/uarch/intel.tsv; } >"$share/doc/fathom/copyright"
    gzip -9nc CHANGELOG.md >"$share/doc/fathom/changelog.gz"
}

# The newest version of the C library that a symbol of the binary asks for.
oldest_libc() {
    objdump -T "$binary" | sed -n 's/.*GLIBC_\([0-9.]*\).*/\1/p' | sort -V | tail -n 1
}

case $kind in
deb)
    architecture=$(dpkg --print-architecture)
    fill "$stage/usr"
    mkdir "$stage/DEBIAN"
    size=$(du -k -s --apparent-size "$stage/usr" | cut -f1)
    cat >"$stage/DEBIAN/control" <<CONTROL
Package: fathom
Version: $version
Architecture: $architecture
Maintainer: Fathom <fathom@localhost>
Installed-Size: $size
Depends: libc6 (>= $(oldest_libc)), libgcc-s1
Section: devel
Priority: optional
Description: memory-performance profiler
 Says why memory makes a program slow: which function, source line and data
 structure, what to change, and what the change would save. It needs no
 hardware counters and no kernel driver.
CONTROL
    file=$out/fathom_${version}_$architecture.deb
    find "$stage" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
    dpkg-deb --root-owner-group -Zxz --build "$stage" "$file" >/dev/null
    ;;
tarball)
    name=fathom-$version-$(uname -m)
    fill "$stage/$name"
    file=$out/$name.tar.gz
    tar -C "$stage" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -cf - "$name" |
        gzip -9n >"$file"
    ;;
wheel)
    # What tests use from PyPI has hatchling.
    python=$(realpath -s "${CARGO_TARGET_DIR:-target}/python/bin/python3")
    fill "$stage/usr"
    libc=$(oldest_libc)
    out=$(realpath "$out")
    file=$(cd python && FATHOM_STAGE=$stage/usr FATHOM_LIBC=$libc "$python" -m hatchling build -t wheel -d "$out")
    ;;
*)
    echo "usage: scripts/package.sh deb|tarball|wheel BINARY DIRECTORY" >&2
    exit 2
    ;;
esac
echo "$file"
