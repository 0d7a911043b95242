//! What fits whom: a program with every need, one with none, machines that lack things.

use facts::host::HugePages;

use super::*;

fn host() -> Host {
    Host {
        huge_pages: HugePages { transparent: Some("madvise".to_owned()), ..HugePages::default() },
        allowed_cpus: vec![0, 1],
        ..Host::default()
    }
}

fn means(host: &Host) -> Means<'_> {
    let allocators = vec![("libjemalloc.so".to_owned(), "/usr/lib/libjemalloc.so.2".to_owned())];
    Means {
        host,
        glibc: Some((2, 36)),
        allocators,
        no_memory_policy: None,
        no_weights: None,
        no_next_touch: None,
    }
}

/// A program that gives reason for everything.
const NEEDY: Behaviour = Behaviour {
    threads: 8.0,
    faults_per_second: Some(100_000.0),
    fault_percent: Some(30.0),
    huge_percent: Some(0.0),
    resident: Some(1e9),
    heap_peak: Some(1e9),
    mapped: Some(1.5e9),
    pool: Some(240e6),
    blocks_per_second: Some(1e6),
    copy_percent: 20.0,
    hot_block: Some((64 << 20, 60.0)),
    openmp: true,
    heap: Heap::Glibc,
};

fn fits(means: &Means<'_>, program: &Behaviour) -> Vec<&'static str> {
    let all = remedies(means, program).into_iter();
    all.filter(|remedy| matches!(remedy.fit, Fit::Fits(_))).map(|remedy| remedy.name).collect()
}

fn of(means: &Means<'_>, program: &Behaviour, name: &str) -> Fit {
    let all = remedies(means, program);
    all.into_iter().find(|remedy| remedy.name == name).expect("a remedy").fit
}

#[test]
fn what_the_machine_allows_and_the_program_asks_for_fits() {
    let host = host();
    assert_eq!(
        fits(&means(&host), &NEEDY),
        [
            "huge-pages",
            "keep-memory",
            "pin-compact",
            "fewer-threads",
            "threads-as-cpus",
            "larger-tcache",
            "few-arenas",
            "jemalloc",
            "nontemporal-copies",
        ]
    );
}

#[test]
fn a_program_without_need_gets_nothing() {
    let content = Behaviour {
        threads: 1.0,
        faults_per_second: Some(10.0),
        fault_percent: Some(0.1),
        huge_percent: Some(80.0),
        resident: Some(1e9),
        heap_peak: Some(1e9),
        mapped: Some(4096.0),
        pool: None,
        blocks_per_second: Some(100.0),
        copy_percent: 0.1,
        hot_block: None,
        openmp: false,
        heap: Heap::Glibc,
    };
    let host = host();
    assert_eq!(fits(&means(&host), &content), Vec::<&str>::new());
    let why = of(&means(&host), &content, "huge-pages");
    let Fit::Pointless(change, why) = why else { panic!("{why:?}") };
    assert_eq!(why, "80 % of its memory is in huge pages already");
    assert_eq!(change.line(), "GLIBC_TUNABLES=glibc.malloc.hugetlb=1");
}

#[test]
fn what_cannot_work_says_why() {
    let mut host = host();
    let morecore = of(&means(&host), &NEEDY, "hugetlb-morecore");
    let Fit::Impossible(why) = morecore else { panic!("{morecore:?}") };
    assert!(why.contains("since 2.34 (this is 2.36)"), "{why}");
    let old = Means { glibc: Some((2, 31)), ..means(&host) };
    assert!(matches!(of(&old, &NEEDY, "huge-pages"), Fit::Impossible(_)));
    let reserved = of(&means(&host), &NEEDY, "hugetlb");
    let Fit::Impossible(why) = reserved else { panic!("{reserved:?}") };
    assert!(why.starts_with("no huge page is reserved: sysctl vm.nr_hugepages=477 (or "), "{why}");
    assert!(why.contains("/etc/sysctl.d") && why.ends_with("hugetlb.2MB.max must allow as many"));
    // One free page of 1 GB, and a pool that others use: 100 + 477 - 20.
    host.huge_pages.pools = vec![(1 << 30, 1, 1), (2 << 20, 100, 20)];
    let reserved = of(&means(&host), &NEEDY, "hugetlb");
    let Fit::Impossible(why) = reserved else { panic!("{reserved:?}") };
    let said = "20 huge pages of 2 MB are free, and 477 are needed: sysctl vm.nr_hugepages=557 ";
    assert!(why.starts_with(said), "{why}");
    let small = Host { memory_bytes: 1 << 30, ..host.clone() };
    let Fit::Impossible(why) = of(&means(&small), &NEEDY, "hugetlb") else { panic!("it fits") };
    assert!(why.ends_with("more than this machine's memory of 1.1 GB"), "{why}");
    host.huge_pages.pools = vec![(2 << 20, 600, 500)];
    assert!(matches!(of(&means(&host), &NEEDY, "hugetlb"), Fit::Fits(_)));
    // 716 pages for the mappings: 600 + 716 - 500.
    let Fit::Impossible(why) = of(&means(&host), &NEEDY, "hugetlb-mappings") else { panic!() };
    assert!(
        why.contains("716 pages of 2 MB, or with MAP_HUGE_1GB 2 of 1 GB, hold the 1500.0 MB"),
        "{why}"
    );
    assert!(why.contains("sysctl vm.nr_hugepages=816 "), "{why}");
    let Fit::Impossible(why) = of(&means(&host), &NEEDY, "hugetlb-pool") else { panic!() };
    // 115 pages, and one for the directory.
    assert!(why.contains("-o huge=always,size=232m "), "{why}");
    let none = Behaviour { mapped: None, pool: None, ..NEEDY };
    let of_none = |name| match of(&means(&host), &none, name) {
        Fit::Impossible(why) => why,
        _ => String::new(),
    };
    assert_eq!(of_none("hugetlb-mappings"), "what the program maps was not recorded");
    assert_eq!(of_none("hugetlb-pool"), "the program has no pool of libpmemobj");
    host.huge_pages.transparent = Some("never".to_owned());
    assert!(matches!(of(&means(&host), &NEEDY, "huge-pages"), Fit::Impossible(_)));
}

#[test]
fn no_setting_of_a_heap_that_the_program_does_not_use() {
    let host = host();
    let fits_with = |heap| fits(&means(&host), &Behaviour { heap, ..NEEDY });
    let threads = ["pin-compact", "fewer-threads", "threads-as-cpus"];
    let copies = ["nontemporal-copies"];
    assert_eq!(fits_with(Heap::Java), [&["huge-pages"], &threads[..], &copies].concat());
    assert_eq!(fits_with(Heap::Other), [&threads[..], &copies].concat());
    let line = |heap, name| match of(&means(&host), &Behaviour { heap, ..NEEDY }, name) {
        Fit::Fits(change) => change.line(),
        Fit::Pointless(_, why) | Fit::Impossible(why) => why,
    };
    assert_eq!(line(Heap::Jemalloc, "huge-pages"), "MALLOC_CONF=thp:always");
    let both = "MIMALLOC_LARGE_OS_PAGES=1 MIMALLOC_ALLOW_LARGE_OS_PAGES=1";
    assert_eq!(line(Heap::Mimalloc, "huge-pages"), both);
    let kept = "MALLOC_CONF=dirty_decay_ms:-1,muzzy_decay_ms:-1";
    assert_eq!(line(Heap::Jemalloc, "keep-memory"), kept);
    assert_eq!(line(Heap::Mimalloc, "few-arenas"), "the program's heap is mimalloc's");
    let java = of(&means(&host), &Behaviour { heap: Heap::Java, ..NEEDY }, "huge-pages");
    let Fit::Fits(change) = java else { panic!("{java:?}") };
    assert_eq!(change.line(), "JAVA_TOOL_OPTIONS=-XX:+UseTransparentHugePages");
}

#[test]
fn placements_fit_the_nodes_of_a_machine() {
    let node = |id, cpus: &[u32], gigabytes: u64| facts::host::NumaNode {
        id,
        cpus: cpus.to_vec(),
        memory_bytes: gigabytes * 1_000_000_000,
        distances: Vec::new(),
    };
    let mut host = Host {
        numa_nodes: vec![node(0, &[0, 1, 4, 5], 2), node(1, &[2, 3, 6, 7], 2), node(2, &[], 8)],
        allowed_cpus: (0..8).collect(),
        ..host()
    };
    let line = |host: &Host, program: &Behaviour, name| match of(&means(host), program, name) {
        Fit::Fits(change) => change.line(),
        Fit::Pointless(_, why) | Fit::Impossible(why) => why,
    };
    let threads = Behaviour { openmp: false, threads: 4.0, ..NEEDY };
    let of_host = |name| line(&host, &threads, name);
    assert_eq!(of_host("pin-compact"), "fathom place --each-thread=0,1,4,5,2,3,6,7");
    assert_eq!(of_host("pin-scatter"), "fathom place --each-thread=0,2,1,3,4,6,5,7");
    assert_eq!(
        line(&host, &NEEDY, "pin-nodes"),
        "OMP_PROC_BIND=spread OMP_PLACES={0,1,4,5},{2,3,6,7}"
    );
    let with_places = line(&host, &NEEDY, "pin-scatter");
    assert_eq!(with_places, "OMP_PROC_BIND=close OMP_PLACES={0},{2},{1},{3},{4},{6},{5},{7}");
    // Without hyper-threads that is compact.
    assert!(of_host("pin-cores").ends_with("it is as pin-compact"));
    host.cpu_groups = [[0, 4], [1, 5], [2, 6], [3, 7]]
        .map(|cpus| facts::host::CpuGroup { part: facts::host::CpuPart::Core, cpus: cpus.to_vec() })
        .to_vec();
    let of_cores = line(&host, &threads, "pin-cores");
    assert_eq!(of_cores, "fathom place --each-thread=0,1,2,3,4,5,6,7");
    host.cpu_groups.clear();
    let of_host = |name| line(&host, &threads, name);
    assert_eq!(of_host("numa-interleave"), "fathom place --interleave=all");
    assert_eq!(of_host("numa-cpus"), "fathom place --cpunodebind=0");
    assert_eq!(of_host("numa-bind"), "fathom place --cpunodebind=0 --membind=0");
    assert_eq!(
        line(&host, &NEEDY, "numa-cpus"),
        "its 8 threads are more than the 4 CPUs of node 0"
    );
    let large = Behaviour { resident: Some(3e9), ..threads };
    assert_eq!(
        line(&host, &large, "numa-memory"),
        "its 3.0 GB do not fit into the memory of node 0"
    );
    let refused = Means { no_memory_policy: Some("not here".to_owned()), ..means(&host) };
    assert_eq!(of(&refused, &threads, "numa-bind"), Fit::Impossible("not here".to_owned()));
    assert!(matches!(of(&refused, &threads, "numa-cpus"), Fit::Fits(_)));
    assert_eq!(of_host("next-touch"), "fathom place --next-touch");
    assert_eq!(of_host("object-interleave"), "fathom place --object=67108864 --object-nodes=all");
    let cold = Behaviour { hot_block: Some((64 << 20, 3.0)), ..threads };
    assert!(line(&host, &cold, "object-interleave").ends_with("only 3 % of the time"));
    let small = Behaviour { hot_block: Some((4096, 60.0)), ..threads };
    assert!(
        line(&host, &small, "object-interleave").ends_with("only from 1 MiB on they are moved")
    );
    let java = Behaviour { heap: Heap::Java, ..threads };
    assert!(line(&host, &java, "next-touch").starts_with("a Java virtual machine"));
    assert_eq!(of_host("tier-memory"), "fathom place --membind=2");
    assert_eq!(of_host("tier-interleave"), "fathom place --weighted-interleave=all");
    let old = Means {
        no_next_touch: Some("no userfaultfd".to_owned()),
        no_weights: Some("it takes Linux 6.9".to_owned()),
        ..means(&host)
    };
    assert_eq!(of(&old, &threads, "next-touch"), Fit::Impossible("no userfaultfd".to_owned()));
    assert_eq!(
        of(&old, &threads, "tier-interleave"),
        Fit::Impossible("it takes Linux 6.9".to_owned())
    );
    host.numa_nodes.truncate(2);
    assert!(
        line(&host, &threads, "tier-memory")
            .starts_with("no NUMA node here has memory and no CPUs")
    );
    host.numa_nodes.truncate(1);
    host.allowed_cpus = vec![0, 1, 4, 5];
    for name in [
        "numa-interleave",
        "numa-cpus",
        "numa-memory",
        "numa-bind",
        "next-touch",
        "object-interleave",
    ] {
        assert!(
            line(&host, &threads, name).starts_with("this machine has one NUMA node"),
            "{name}"
        );
    }
    assert!(line(&host, &threads, "pin-scatter").ends_with("it is as pin-compact"));
}

#[test]
fn variables_add_to_what_is_there() {
    let change = Change::tunables(&["a=1", "b=2"]);
    let already = |name: &str| (name == "GLIBC_TUNABLES").then(|| "c=3".to_owned());
    assert_eq!(
        change.variables(&already),
        [("GLIBC_TUNABLES".to_owned(), "a=1:b=2:c=3".to_owned())]
    );
    let library = Change::variable("LD_PRELOAD", "libjemalloc.so");
    assert_eq!(library.line(), "LD_PRELOAD=libjemalloc.so");
}
