#!/bin/sh
# The main job on recipe R1, a persistent-memory library whose overhead hides in an inlined function: the program is
# recorded before and after its fix. $1: cargo's target folder. Called by `make demo` when everything is built.
set -eu
cd "$(dirname "$0")/.."

target=${1:-target}
fathom=$target/release/fathom
results=$target/demo
elements=20000000
# Three int arrays and what the library keeps beside them.
pool_kib=$((elements * 12 / 1024 * 5 / 4))

for needed in "$fathom" recipes/build/pmdk_triad_before recipes/build/pmdk_triad_after; do
    if [ ! -x "$needed" ]; then
        echo "$needed is missing; make build samples says why" >&2
        exit 1
    fi
done
rm -rf "$results"
mkdir -p "$results"

# Containers often have a /dev/shm of 64 MB; then the pool goes beside the results, onto the disk.
pool=/dev/shm/fathom-demo.$$
free_kib=$(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 { print $4 }')
if [ "${free_kib:-0}" -lt "$pool_kib" ] || [ ! -w /dev/shm ]; then pool=$results/pool; fi
trap 'rm -f "$pool"' EXIT

record() { # NAME: records recipes/build/pmdk_triad_NAME into $results/NAME
    set -- "$1" "recipes/build/pmdk_triad_$1" --elements "$elements" --repeat 32 --pool "$pool"
    name=$1
    shift
    echo "\$ $fathom run -r $results/$name -- $*"
    echo
    "$fathom" run -r "$results/$name" -- "$@"
}

cat <<'TEXT'

== Before: c[i] = 3 * a[i] + b[i] over arrays in persistent memory, 32 times.
   Look at the first rows of the hot functions: the program's own loop does little, the library's inlined
   pmemobj_direct_inline does much. And at the program's own rate_gb_per_s, far below the machine's peak bandwidth.

TEXT
record before
cat <<'TEXT'

== After: the three start addresses are taken once, before the loop.
   Look at the elapsed time, and at pmemobj_direct_inline, which is gone. rate_gb_per_s is now near the peak: on an
   idle machine the memory is what limits the program.

TEXT
record after
cat <<TEXT

== The recordings are in $results. More of them:
   $fathom report hotspots -r $results/before
   $fathom report callers  -r $results/before
   $fathom report source   -r $results/before
   $fathom report timeline -r $results/after
TEXT
