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
const GIANT_PAGE: f64 = 1_073_741_824.0;

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
            name: "hugetlb-mappings",
            what: "what the program maps itself in reserved huge pages",
            fit: Fit::Impossible(of_mappings(means, program)),
        },
        Remedy {
            name: "hugetlb-pool",
            what: "the pool of libpmemobj in huge pages",
            fit: Fit::Impossible(of_pool(program)),
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
    other_heap(program).or_else(|| little(program))
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
        // These have their own options.
        Some(_) if matches!(program.heap, Heap::Java | Heap::Jemalloc | Heap::Mimalloc) => Ok(()),
        Some(_) => needs_glibc(means, (2, 35), "glibc.malloc.hugetlb"),
    };
    let change = match program.heap {
        // The option of HotSpot (java(1), "Advanced Garbage Collection Options").
        Heap::Java => Change::variable("JAVA_TOOL_OPTIONS", "-XX:+UseTransparentHugePages"),
        Heap::Jemalloc => Change::variable("MALLOC_CONF", "thp:always"),
        // The first is the name until 2.0, the second from 2.1 on.
        Heap::Mimalloc => Change {
            environment: ["MIMALLOC_LARGE_OS_PAGES", "MIMALLOC_ALLOW_LARGE_OS_PAGES"]
                .map(|name| (name.to_owned(), "1".to_owned()))
                .to_vec(),
            ..Change::default()
        },
        Heap::Glibc | Heap::Other => Change::tunables(&["glibc.malloc.hugetlb=1"]),
    };
    let pointless = match program.heap {
        Heap::Other => other_heap(program),
        _ => little(program),
    };
    fit(change, possible, pointless)
}

/// What it takes to have the program's own mappings in reserved huge pages.
fn of_mappings(means: &Means<'_>, program: &Behaviour) -> String {
    let Some(bytes) = program.mapped else {
        return "what the program maps was not recorded".to_owned();
    };
    if bytes < HUGE_PAGE {
        return "the program maps less than a huge page itself".to_owned();
    }
    let [small, large] = [HUGE_PAGE, GIANT_PAGE].map(|page| (bytes / page).ceil());
    let pool = free_pages(means, bytes).err().map_or(String::new(), |why| format!(". {why}"));
    format!(
        "it needs MAP_HUGETLB in the program's mmap: {small:.0} pages of 2 MB, or with MAP_HUGE_1GB {large:.0} of 1 GB, hold the \
         {:.1} MB that it maps at most{pool}",
        bytes / 1e6
    )
}

/// How a pool gets huge pages. hugetlbfs takes none of libpmemobj: 1.12 unmaps a page of 4 KiB of the new file, which the kernel refuses
/// there, and aborts.
fn of_pool(program: &Behaviour) -> String {
    let Some(bytes) = program.pool else {
        return "the program has no pool of libpmemobj".to_owned();
    };
    format!(
        "it needs another place for the pool: mount -t tmpfs -o huge=always,size={:.0}m none /mnt/pool, with the pool in it (or a DAX \
         file system, where its extents are aligned to 2 MB); hugetlbfs does not do: libpmemobj aborts there",
        // The directory of a tmpfs takes a little, too.
        ((bytes / HUGE_PAGE).ceil() + 1.0) * 2.0
    )
}

/// Memory that the C library's heap takes from the pool.
fn heap(program: &Behaviour) -> f64 {
    program.heap_peak.or(program.resident).unwrap_or(HUGE_PAGE)
}

/// Whether the pool of 2 MB pages, which `vm.nr_hugepages` sets where nothing else is the default, has enough for these bytes.
fn free_pages(means: &Means<'_>, bytes: f64) -> Result<(), String> {
    let needed = (bytes / HUGE_PAGE).ceil().max(1.0) as u64;
    let mut pools = means.host.huge_pages.pools.iter();
    let pool = pools.find(|(size, ..)| *size as f64 == HUGE_PAGE);
    let (all, free) = pool.map_or((0, 0), |(_, all, free)| (*all, *free));
    if free >= needed {
        return Ok(());
    }
    let why = match all {
        0 => "no huge page is reserved".to_owned(),
        _ => format!("{free} huge pages of 2 MB are free, and {needed} are needed"),
    };
    // The number is that of the whole pool, with pages in use.
    let all = all.saturating_add(needed - free);
    let memory = means.host.memory_bytes;
    if memory > 0 && all as f64 * HUGE_PAGE > memory as f64 {
        return Err(format!(
            "{why}, and {all} of them are more than this machine's memory of {:.1} GB",
            memory as f64 / 1e9
        ));
    }
    Err(format!(
        "{why}: sysctl vm.nr_hugepages={all} (or hugeadm --pool-pages-min 2MB:{all}); if fewer come, memory is fragmented: sysctl \
         vm.compact_memory=1, or reserve them at boot by hugepages={all}. For good: a line vm.nr_hugepages={all} in /etc/sysctl.d, \
         which systemd-sysctl reads. In a control group, hugetlb.2MB.max must allow as many"
    ))
}

fn reserved(means: &Means<'_>, program: &Behaviour) -> Fit {
    let possible = free_pages(means, heap(program))
        .and_then(|()| needs_glibc(means, (2, 35), "glibc.malloc.hugetlb"));
    let pointless = other_heap(program).or_else(|| no_use(program));
    fit(Change::tunables(&["glibc.malloc.hugetlb=2"]), possible, pointless)
}

fn morecore(means: &Means<'_>, program: &Behaviour) -> Fit {
    let possible = match means.glibc {
        Some((major, minor)) if (major, minor) >= (2, 34) => Err(format!(
            "the GNU C library has no hook for it since 2.34 (this is {major}.{minor}): use huge-pages or hugetlb"
        )),
        Some(_) => free_pages(means, heap(program)),
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
    if program.heap == Heap::Jemalloc {
        let change = Change::variable("MALLOC_CONF", "dirty_decay_ms:-1,muzzy_decay_ms:-1");
        return fit(change, Ok(()), pointless);
    }
    let pointless = other_heap(program).or(pointless);
    fit(Change::tunables(&tunables), needs_glibc(means, (2, 26), "tunables"), pointless)
}
