//! Huge pages, and memory that is kept instead of released.
//!
//! What not: whether they help (`trial`).

use super::{Behaviour, Change, Fit, Heap, Means, Remedy, fit, needs_glibc, other_heap};

/// Below this much memory huge pages cannot matter, bytes.
pub(super) const LITTLE: f64 = 16e6;
/// From this share of anonymous memory on most of it is in huge pages already.
const MOSTLY_HUGE: f64 = 50.0;
/// Up to this share of CPU time and this rate, page faults do not matter.
const FEW_FAULTS_PERCENT: f64 = 1.0;
const FEW_FAULTS: f64 = 5_000.0;
const HUGE_PAGE: f64 = 2_097_152.0;

pub(super) fn remedies(means: &Means<'_>, program: &Behaviour) -> Vec<Remedy> {
    vec![
        Remedy {
            name: "huge-pages",
            what: "transparent huge pages for the heap",
            fit: transparent(means, program),
        },
        Remedy { name: "hugetlb", what: "heap in reserved huge pages", fit: reserved(means, program) },
        Remedy {
            name: "hugetlb-morecore",
            what: "heap in reserved huge pages by libhugetlbfs",
            fit: morecore(means, program),
        },
        Remedy {
            name: "keep-memory",
            what: "freed memory is reused, never released",
            fit: keep(means, program),
        },
        Remedy {
            name: "prefault",
            what: "have the kernel populate memory at once",
            fit: Fit::Impossible(
                "it needs a line in the program: madvise(..., MADV_POPULATE_WRITE) after the allocation, or mmap \
                with MAP_POPULATE"
                    .to_owned(),
            ),
        },
    ]
}

/// Why huge pages would bring nothing.
fn no_use(program: &Behaviour) -> Option<String> {
    // Its own option is for a Java virtual machine's.
    let other = other_heap(program).filter(|_| program.heap != Heap::Java);
    other.or_else(|| little(program))
}

fn little(program: &Behaviour) -> Option<String> {
    match (program.resident, program.huge_percent) {
        (Some(bytes), _) if bytes < LITTLE => {
            Some(format!("the program uses only {:.1} MB of memory", bytes / 1e6))
        }
        (_, Some(percent)) if percent >= MOSTLY_HUGE => {
            Some(format!("{percent:.0} % of its memory is in huge pages already"))
        }
        _ => None,
    }
}

fn transparent(means: &Means<'_>, program: &Behaviour) -> Fit {
    let possible = match means.host.huge_pages.transparent.as_deref() {
        None => Err("the kernel has no transparent huge pages".to_owned()),
        Some("never") => Err(
            "transparent huge pages are off: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"
                .to_owned(),
        ),
        Some(_) if program.heap == Heap::Java => Ok(()),
        Some(_) => needs_glibc(means, (2, 35), "glibc.malloc.hugetlb"),
    };
    let change = match program.heap {
        // The option of HotSpot (java(1), "Advanced Garbage Collection Options").
        Heap::Java => Change::variable("JAVA_TOOL_OPTIONS", "-XX:+UseTransparentHugePages"),
        _ => Change::tunables(&["glibc.malloc.hugetlb=1"]),
    };
    fit(change, possible, no_use(program))
}

/// Whether the pool of 2 MB pages, which `vm.nr_hugepages` sets where nothing else is the default, has enough of them.
fn free_pages(means: &Means<'_>, program: &Behaviour) -> Result<(), String> {
    let needed = (program.resident.unwrap_or(HUGE_PAGE) / HUGE_PAGE).ceil().max(1.0) as u64;
    let mut pools = means.host.huge_pages.pools.iter();
    let pool = pools.find(|(size, ..)| *size as f64 == HUGE_PAGE);
    let (all, free) = pool.map_or((0, 0), |(_, all, free)| (*all, *free));
    if free >= needed {
        return Ok(());
    }
    let why = match all {
        0 => "no huge page is reserved".to_owned(),
        _ => format!("{free} huge pages of 2 MB are free, and its memory is {needed}"),
    };
    // The number is that of the whole pool, with pages in use.
    let all = all.saturating_add(needed - free);
    Err(format!("{why}: sysctl vm.nr_hugepages={all}"))
}

fn reserved(means: &Means<'_>, program: &Behaviour) -> Fit {
    let possible = free_pages(means, program)
        .and_then(|()| needs_glibc(means, (2, 35), "glibc.malloc.hugetlb"));
    let pointless = other_heap(program).or_else(|| no_use(program));
    fit(Change::tunables(&["glibc.malloc.hugetlb=2"]), possible, pointless)
}

fn morecore(means: &Means<'_>, program: &Behaviour) -> Fit {
    let possible = match means.glibc {
        Some((major, minor)) if (major, minor) >= (2, 34) => Err(format!(
            "the GNU C library has no hook for it since 2.34 (this is {major}.{minor}): use huge-pages or hugetlb"
        )),
        Some(_) => free_pages(means, program),
        None => Err("it is for the GNU C library; this machine has another one".to_owned()),
    };
    let environment = vec![
        ("LD_PRELOAD".to_owned(), "libhugetlbfs.so".to_owned()),
        ("HUGETLB_MORECORE".to_owned(), "yes".to_owned()),
    ];
    let pointless = other_heap(program).or_else(|| no_use(program));
    fit(Change { environment, ..Change::default() }, possible, pointless)
}

fn keep(means: &Means<'_>, program: &Behaviour) -> Fit {
    let few_faults = program.fault_percent.is_some_and(|percent| percent < FEW_FAULTS_PERCENT)
        && program.faults_per_second.is_some_and(|rate| rate < FEW_FAULTS);
    let pointless = few_faults.then(|| {
        let percent = program.fault_percent.unwrap_or(0.0);
        format!("page faults take only {percent:.1} % of its CPU time")
    });
    // Large blocks come from the heap's top instead of mmap, and the top is never given back.
    let tunables = [
        "glibc.malloc.mmap_max=0",
        "glibc.malloc.trim_threshold=1099511627776",
        "glibc.malloc.top_pad=67108864",
    ];
    let pointless = other_heap(program).or(pointless);
    fit(Change::tunables(&tunables), needs_glibc(means, (2, 26), "tunables"), pointless)
}
