#!/bin/sh
# Makes sure that what Fathom's build, recipes and tests need is there; with the argument `corpus`, also what
# `make corpus` and the benches of the burst tracer run; with `numa`, the virtual machines of `make test` and `make numa`; with
# `aarch64`, what `make aarch64` runs; with `ranks`, launchers of ranks, whose tests are skipped without.
#
# Looks for the things themselves, not for package names, so that it is also right where they came from elsewhere.
# Installs what is missing through apt when it may (root on Debian or Ubuntu); else prints the command to type and
# fails. Does nothing, and needs no network, when nothing is missing.
set -eu

# The oldest Rust that compiles us: rust-version in Cargo.toml.
OLDEST_RUST=1.88

has_header() {
    compiler=$(command -v gcc || command -v cc) || return 1
    printf '#include <%s>\n' "$1" | "$compiler" -E -x c - >/dev/null 2>&1
}

# OpenBLAS' header stands in a folder of its own on some systems; recipes/Makefile asks pkg-config there.
has_openblas() {
    has_header cblas.h || pkg-config --exists openblas 2>/dev/null
}

missing=""
need() { # PACKAGE COMMAND...: the package is missing unless the command succeeds
    package=$1
    shift
    if ! "$@" >/dev/null 2>&1; then missing="$missing $package"; fi
}
need gcc command -v gcc
need g++ command -v g++
need make command -v make
need libc6-dev has_header stdio.h
need binutils command -v objcopy
need libpmemobj-dev has_header libpmemobj.h
need libopenblas-dev has_openblas
# Only tests use these: shared debug files, packed descriptions of other machines, a terminal.
need dwz command -v dwz
need xz-utils command -v xz
need bzip2 command -v bzip2
need bsdutils command -v script
# Other allocators under the heap's agent; tests of them are skipped without.
has_library() {
    compiler=$(command -v gcc || command -v cc) || return 1
    echo 'int main(void) { return 0; }' | "$compiler" -x c - -o /dev/null "-l$1"
}
need libjemalloc-dev has_library jemalloc
need libgoogle-perftools-dev has_library tcmalloc
need libmimalloc-dev has_library mimalloc
# Memory kinds; a test of them is skipped without.
need libmemkind-dev has_library memkind

# What builds Fathom for aarch64; the check of that is skipped without.
has_cross_libc() {
    echo 'int main(void) { return 0; }' | aarch64-linux-gnu-gcc -x c - -o /dev/null
}
need gcc-aarch64-linux-gnu command -v aarch64-linux-gnu-gcc
need libc6-dev-arm64-cross has_cross_libc

has_postgres() {
    ls /usr/lib/postgresql/*/bin/initdb || command -v initdb
}

if [ "${1:-}" = corpus ]; then
    need python3 command -v python3
    need perl command -v perl
    need sqlite3 command -v sqlite3
    need gawk command -v awk
    need zstd command -v zstd
    need openssl command -v openssl
    need git command -v git
    need redis-server command -v redis-server
    need postgresql has_postgres
    need nodejs command -v node
    need default-jdk-headless command -v java
    need golang-go command -v go
    need gfortran command -v gfortran
    need imagemagick command -v convert-im6.q16
    need valgrind command -v valgrind
fi

has_static_busybox() {
    path=$(command -v busybox) && ! ldd "$path"
}

if [ "${1:-}" = numa ]; then
    need python3 command -v python3
    need qemu-system-x86 command -v qemu-system-x86_64
    need busybox-static has_static_busybox
fi

if [ "${1:-}" = aarch64 ]; then
    need python3 command -v python3
    need qemu-system-arm command -v qemu-system-aarch64
    need qemu-user-static command -v qemu-aarch64-static
    need busybox-static has_static_busybox
fi

if [ "${1:-}" = ranks ]; then
    need openmpi-bin command -v mpirun.openmpi
    need libopenmpi-dev command -v mpicc.openmpi
    need mpich command -v mpirun.mpich
    need libmpich-dev command -v mpicc.mpich
    need slurmctld command -v slurmctld
    need slurmd command -v slurmd
    need slurm-client command -v srun
    need munge command -v munged
    need iproute2 command -v ip
fi

update="apt-get -qq update"
install="apt-get -qq install --yes --no-install-recommends$missing"
if [ -n "$missing" ] && command -v apt-get >/dev/null; then
    if [ "$(id -u)" = 0 ]; then
        echo "installing:$missing"
        export DEBIAN_FRONTEND=noninteractive
        $update
        $install
    else
        echo "missing:$missing; type:" >&2
        echo "  sudo $update && sudo $install" >&2
        exit 1
    fi
elif [ -n "$missing" ]; then
    echo "missing (names of Debian's packages):$missing; install them with your package manager" >&2
    exit 1
fi

# promtool checks the metrics of `fathom watch` in a test. Debian's package starts a server; only the program is taken out of it.
tools=${CARGO_TARGET_DIR:-target}/tools
if ! command -v promtool >/dev/null && [ ! -x "$tools/promtool" ] && command -v dpkg-deb >/dev/null; then
    mkdir -p "$tools"
    (
        cd "$tools"
        apt-get -qq download prometheus || { $update && apt-get -qq download prometheus; }
        dpkg-deb --fsys-tarfile prometheus_*.deb | tar -x --strip-components=3 ./usr/bin/promtool
        rm prometheus_*.deb
    ) 2>/dev/null || echo "going on without promtool; the test that needs it will be skipped"
fi

# The kernel of virtual machines. Debian's package installs a boot loader's entry; only the kernel is taken out of it.
has_kernel() {
    for kernel in /boot/vmlinuz-*cloud-amd64 "$tools"/vmlinuz-*cloud-amd64; do
        if [ -e "$kernel" ]; then return; fi
    done
    return 1
}
if [ "${1:-}" = numa ] && ! has_kernel && command -v dpkg-deb >/dev/null; then
    mkdir -p "$tools"
    (
        cd "$tools"
        image() { apt-cache depends linux-image-cloud-amd64 | sed -n 's/.*Depends: \(linux-image-[^ ]*\)$/\1/p' | head -n 1; }
        apt-get -qq download "$(image)" || { $update && apt-get -qq download "$(image)"; }
        dpkg-deb --fsys-tarfile linux-image-*.deb | tar -x --strip-components=2 --wildcards './boot/vmlinuz-*'
        rm linux-image-*.deb
    ) 2>/dev/null || echo "going on without a kernel for virtual machines; tests that need it will be skipped"
fi

if ! command -v cargo >/dev/null; then
    rustup=${HOME:-/root}/.cargo
    if [ -x "$rustup/bin/cargo" ]; then
        echo "cargo is in $rustup/bin, which is not in PATH; type:  . \"$rustup/env\"" >&2
    else
        echo "Rust is missing (at least $OLDEST_RUST; Debian's is older); type:" >&2
        echo "  curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh" >&2
    fi
    exit 1
fi
found=$(rustc --version | cut -d' ' -f2)
oldest=$(printf '%s\n%s\n' "$OLDEST_RUST" "$found" | sort -V | head -n 1)
if [ "$oldest" != "$OLDEST_RUST" ]; then
    echo "Rust $found is too old, $OLDEST_RUST is needed; type:  rustup update stable" >&2
    echo "(a Rust of Debian's own: install rustup from https://rustup.rs instead)" >&2
    exit 1
fi

if command -v rustup >/dev/null && ! rustup target list --installed | grep -q '^aarch64-unknown-linux-gnu$'; then
    rustup target add aarch64-unknown-linux-gnu >/dev/null 2>&1 || echo "going on without Rust's library for aarch64" >&2
fi
