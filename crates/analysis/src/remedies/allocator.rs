//! Other allocators, other settings of the C library's allocator, and how it copies.
//!
//! What not: whether they help (`trial`).

use super::{Behaviour, Change, Fit, Means, Remedy, fit, needs_glibc, other_heap};

/// Up to this many blocks per second the allocator does not matter: at 50 ns each they are 0.5 % of the time.
const FEW_BLOCKS: f64 = 100_000.0;
/// Up to this share of CPU time copying does not matter.
const LITTLE_COPYING: f64 = 2.0;

pub(super) fn remedies(means: &Means<'_>, program: &Behaviour) -> Vec<Remedy> {
    vec![
        Remedy {
            name: "larger-tcache",
            what: "more free blocks per thread in the C library",
            fit: fit(
                Change::tunables(&["glibc.malloc.tcache_count=127"]),
                needs_glibc(means, (2, 26), "its cache of free blocks"),
                few_blocks(program),
            ),
        },
        Remedy {
            name: "few-arenas",
            what: "all threads allocate from two heaps",
            fit: fit(
                Change::variable("MALLOC_ARENA_MAX", "2"),
                needs_glibc(means, (2, 10), "MALLOC_ARENA_MAX"),
                (program.threads < 4.0)
                    .then(|| "less than four threads have few heaps of their own".to_owned())
                    .or_else(|| few_blocks(program)),
            ),
        },
        Remedy {
            name: "jemalloc",
            what: "another allocator",
            fit: other(means, program, "libjemalloc.so", "libjemalloc2"),
        },
        Remedy {
            name: "tcmalloc",
            what: "another allocator",
            fit: other(means, program, "libtcmalloc_minimal.so", "libtcmalloc-minimal4"),
        },
        Remedy {
            name: "mimalloc",
            what: "another allocator",
            fit: other(means, program, "libmimalloc.so", "libmimalloc2.0"),
        },
        Remedy {
            name: "nontemporal-copies",
            what: "copies of 1 MB or more bypass the caches",
            fit: fit(
                Change::tunables(&["glibc.cpu.x86_non_temporal_threshold=0x100000"]),
                needs_glibc(means, (2, 26), "its tunables"),
                (program.copy_percent < LITTLE_COPYING).then(|| {
                    format!(
                        "memcpy and similar functions take {:.1} % of its CPU time",
                        program.copy_percent
                    )
                }),
            ),
        },
    ]
}

fn few_blocks(program: &Behaviour) -> Option<String> {
    let few = |rate: f64| {
        (rate < FEW_BLOCKS).then(|| format!("the program allocates only {rate:.0} blocks a second"))
    };
    other_heap(program).or_else(|| few(program.blocks_per_second?))
}

fn other(means: &Means<'_>, program: &Behaviour, library: &str, package: &str) -> Fit {
    let installed = means.allocators.iter().find(|(name, _)| name == library);
    match installed {
        None => Fit::Impossible(format!("{library} is not installed (Debian: {package})")),
        Some((_, path)) => {
            fit(Change::variable("LD_PRELOAD", path.clone()), Ok(()), few_blocks(program))
        }
    }
}
