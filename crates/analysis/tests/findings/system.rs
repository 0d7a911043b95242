//! What the system does: page faults, the allocator, files, swap, quotas, NUMA nodes, entries into the kernel.

use analysis::accesses::Pattern;
use analysis::findings::{
    EntryFigure, FaultFigures, Figures, HotSite, NamedLocation, RemoteFigure, Severity,
    SystemFigures, Traced, UsedByAll, findings,
};
use facts::{Evidence, KernelCause, Metric};

use crate::threads::{thread, waiting, with_threads};
use crate::{NOTHING, about, doubtful, hot, ids, percent, place, quiet, share, site, spent};

fn faulting(seconds: f64, minor: f64, resident_pages: f64) -> Figures {
    let mut figures = quiet();
    figures.faults.time = about(seconds, "s");
    figures.faults.minor = Metric::counted(minor, "count");
    figures.faults.resident_pages = Some(resident_pages);
    figures
}

#[test]
fn faults_on_new_memory_and_on_the_same_again() {
    let startup = findings(&faulting(0.4, 262_144.0, 262_144.0)).found;
    assert_eq!(startup[0].id, "fault-startup");
    assert!(startup[0].advice.starts_with("512 pages of 2 MiB"), "{}", startup[0].advice);
    // 262144 x 700 ns, and 1 - 60 / (512 x 0.7).
    let saved = startup[0].gain.value.expect("a gain");
    assert!((saved - 0.183_500_8 * (1.0 - 60.0 / 358.4)).abs() < 1e-9, "{saved}");
    // Few faults that take long are those of huge pages.
    assert_eq!(ids(&faulting(0.4, 1000.0, 262_144.0)), NOTHING);
    assert_eq!(ids(&faulting(0.4, 262_144.0, 2048.0)), ["fault-churn"]);
    // Few faults are churn by the bytes, where each takes a large page.
    let mut large = faulting(0.4, 5000.0, 262_144.0);
    large.faults.huge = 4900.0;
    assert_eq!(ids(&large), ["fault-churn"]);
    // Ten processes, one after another, that take their memory once each.
    let mut build = faulting(0.4, 262_144.0, 26_215.0);
    build.faults.of_one_process = Some(10.0);
    assert_eq!(ids(&build), ["fault-startup"]);
    build.faults.of_one_process = None;
    assert_eq!(ids(&build), NOTHING);
    // Pages of files: of libraries that the loader writes to, of code that is mapped.
    let mut loaded = faulting(0.4, 262_144.0, 262_144.0);
    loaded.faults.of_files_percent = 95.0;
    assert_eq!(ids(&loaded), NOTHING);
    assert_eq!(ids(&faulting(0.02, 10_000.0, 10_000.0)), NOTHING);
    assert_eq!(ids(&faulting(0.02, 10_000.0, 100.0)), NOTHING);
}

#[test]
fn large_pages_that_are_dear_just_then_are_no_remedy() {
    // A fragmented machine: 512 small pages take 358 µs, a large one 4.7 ms. Nothing of it can be saved.
    let at = |large: f64, seen: f64, free: f64| {
        let mut figures = faulting(0.4, 262_144.0, 262_144.0);
        let costs = &mut figures.faults.costs;
        (costs.large, costs.seen, costs.free) = (Some(about(large, "ns")), seen, Some(free));
        figures
    };
    assert_eq!(ids(&at(4.7e6, 32.0, 43.0)), NOTHING);
    let cheap = findings(&at(60_000.0, 32.0, 600.0)).found;
    assert_eq!(cheap[0].id, "fault-startup");
    assert!(cheap[0].evidence.iter().any(|one| one.what.contains("2 MiB just before this run")));
    assert!(cheap[0].gain.low.is_some_and(|low| low > 0.1), "{:?}", cheap[0].gain);
    // Of 512 pages, 462 are beyond the free ones: their cost is unknown.
    let unknown = findings(&at(60_000.0, 32.0, 50.0));
    assert!(unknown.found.is_empty(), "{:?}", unknown.found);
    // A few that a hypervisor may have to find: the pages that were seen bound their number.
    let gain = |seen| {
        let guest = Figures { virtualised: true, ..at(60_000.0, seen, 600.0) };
        findings(&guest).found[0].gain.low.expect("an interval")
    };
    assert!(gain(0.0) < -1.0 && gain(32.0) > -0.1 && gain(32.0) > gain(8.0), "{}", gain(32.0));
}

#[test]
fn disk_faults_count_where_somebody_waited() {
    let with = |major, waiting| {
        let mut figures = quiet();
        figures.faults.major = Metric::counted(major, "count");
        Figures { waiting: Metric::counted(waiting, "s"), ..figures }
    };
    assert_eq!(ids(&with(3000.0, 0.5)), ["disk-faults"]);
    assert_eq!(ids(&with(300.0, 0.5)), NOTHING);
    assert_eq!(ids(&with(3000.0, 0.0)), NOTHING);
}

#[test]
fn the_allocator_counts_by_its_time() {
    let with = |seconds| {
        let time = about(seconds, "s");
        let spent = spent(time.clone(), time);
        Figures { allocator: Ok(spent), ..quiet() }
    };
    assert_eq!(ids(&with(0.3)), ["allocator-churn"]);
    assert_eq!(ids(&with(0.03)), NOTHING);
    // What the kernel does for free() belongs to memory that is given back and taken anew, where that is found.
    let (time, in_program) = (about(0.3, "s"), about(0.02, "s"));
    let mut unmapping = Figures { faults: faulting(0.8, 5e5, 1e4).faults, ..with(0.3) };
    unmapping.allocator = Ok(spent(time, in_program));
    assert_eq!(ids(&unmapping), ["fault-churn"]);
}

#[test]
fn waits_for_files_count_as_far_as_there_is_something_to_do_meanwhile() {
    let found = findings(&waiting(0.0, 0.0, 1.0)).found;
    assert_eq!((found[0].id, found[0].gain.value), ("io-bound", Some(0.25)));
    assert_eq!(ids(&waiting(0.0, 0.0, 0.1)), NOTHING);
    let found = findings(&waiting(0.0, 0.0, 3.96)).found;
    assert_eq!((found[0].id, found[0].severity), ("io-bound", Severity::Info));
    // Without the switches of threads: a sign, and how to see more.
    let idle = |seconds, waiting| {
        let system = SystemFigures { io_wait: Metric::counted(seconds, "s"), ..quiet().system };
        let waits = Err("not followed".into());
        Figures { system, waits, waiting: Metric::counted(waiting, "s"), ..quiet() }
    };
    let found = findings(&idle(0.5, 0.5)).found;
    assert_eq!((found[0].id, found[0].severity), ("io-bound", Severity::Info));
    assert_eq!(found[0].next, ["collect", "threading", "--", "./program", "a b"]);
    assert_eq!(ids(&idle(0.5, 0.0)), NOTHING);
    assert_eq!(ids(&idle(0.05, 0.5)), NOTHING);
    // Others that were busy may have been who read and wrote.
    let with_other_load =
        |others| Figures { other_percent: Metric::counted(others, "percent"), ..idle(0.5, 0.5) };
    assert_eq!(ids(&with_other_load(5.0)), ["io-bound"]);
    assert_eq!(ids(&with_other_load(30.0)), NOTHING);
    let unjudged = findings(&with_other_load(30.0)).unjudged;
    assert!(
        unjudged.iter().any(|rule| rule.id == "io-bound" && rule.why.text().contains("30 %")),
        "{unjudged:?}"
    );
}

#[test]
fn a_quota_that_was_reached() {
    let throttled = |seconds| {
        let whole = (0.0, 1.0);
        let threads = [thread(1, 0.5, whole), thread(2, 0.5, whole)];
        let system = SystemFigures { throttled: Metric::counted(seconds, "s"), ..quiet().system };
        Figures { quota: Some(1.0), usable_cpus: Some(1.0), system, ..with_threads(&threads) }
    };
    let found = findings(&throttled(1.0)).found;
    assert_eq!((found[0].id, found[0].gain.value), ("cpu-quota", Some(0.5)));
    let part = findings(&Figures { quota: Some(0.2), usable_cpus: Some(0.2), ..throttled(0.1) });
    let title = "2 threads compute on 1 CPUs (a quota of 0.2 CPUs is set)";
    assert!(part.found.iter().any(|one| one.title == title), "{:?}", part.found);
    // Two threads on a CPU are too many all the same.
    assert_eq!(ids(&throttled(0.1)), ["oversubscribed"]);
    assert_eq!(ids(&Figures { quota: None, ..throttled(1.0) }), ["oversubscribed"]);
}

#[test]
fn swap_explains_major_faults_where_the_machine_swapped_as_much() {
    let with = |swapped, major| {
        let mut figures = quiet();
        figures.faults.major = Metric::counted(major, "count");
        figures.system.swapped = Metric::counted(swapped, "count");
        Figures { waiting: Metric::counted(0.5, "s"), ..figures }
    };
    assert_eq!(ids(&with(5000.0, 3000.0)), ["swapping"]);
    // Pages that come back are faulted in anew, and nobody gave them back.
    let faults = FaultFigures {
        major: Metric::counted(3000.0, "count"),
        ..faulting(0.4, 262_144.0, 2048.0).faults
    };
    assert_eq!(ids(&Figures { faults, ..with(5000.0, 3000.0) }), ["swapping"]);
    assert_eq!(ids(&with(50.0, 3000.0)), ["disk-faults"]);
    assert_eq!(ids(&with(5000.0, 0.0)), NOTHING);
}

#[test]
fn entries_into_the_kernel_by_cause() {
    let with = |cause, name: &str, count, seconds| {
        let time = Metric::counted(seconds, "s");
        let one = EntryFigure { cause, name: name.to_owned(), count, time };
        Figures { entries: Ok(vec![one]), ..quiet() }
    };
    let found = findings(&with(KernelCause::SystemCall, "read", 1e6, 0.4)).found;
    assert_eq!(
        (found[0].id, found[0].title.as_str()),
        ("kernel-entries", "1000000 calls of read enter the kernel")
    );
    assert_eq!(found[0].gain.value, Some(0.2));
    // A million calls at 100 ns.
    assert!((found[0].gain.low.expect("a low end") - 0.1).abs() < 1e-9);
    // A call that works long is not one too many.
    assert_eq!(ids(&with(KernelCause::SystemCall, "read", 100.0, 0.4)), NOTHING);
    assert_eq!(ids(&with(KernelCause::Interrupt, "timer", 1e6, 0.4)), NOTHING);
    let found = findings(&with(KernelCause::PageFault, "in program", 262_144.0, 0.2)).found;
    assert_eq!((found[0].id, found[0].severity), ("kernel-entries", Severity::Info));
    assert!(found[0].advice.starts_with("2 pages of 2 MiB"), "{}", found[0].advice);
    assert_eq!(found[0].next, ["try", "huge-pages", "--", "./program", "a b"]);
    assert_eq!(ids(&with(KernelCause::PageFault, "in program", 100.0, 0.001)), NOTHING);
}

/// A function that runs on node 1 of two and goes through memory of node 0.
fn remote(part: f64, fullest: f64) -> RemoteFigure {
    RemoteFigure {
        place: place("sum"),
        time: about(1.0, "s"),
        waits: share(60.0),
        remote: share(part),
        fullest,
        fullest_node: 0,
        nodes: 2.0,
    }
}

#[test]
fn what_every_thread_uses_in_whole() {
    let of = |share: f64, remote: f64, object: &str| {
        let place = NamedLocation { object: Some("b".to_owned()), ..place("loop") };
        let function = hot(HotSite { place, ..site(Pattern::Unit) });
        let traced = Traced { functions: vec![function], ..Traced::default() };
        let one = UsedByAll {
            object: object.to_owned(),
            topology: "2x4".to_owned(),
            threads: 4,
            share: percent(share),
            remote: percent(remote),
            read_only: true,
        };
        let found = findings(&Figures {
            traced: Ok(traced),
            used_by_all: Some(one),
            elapsed: 1.0,
            ..quiet()
        });
        found.found.into_iter().find(|one| one.id == "used-by-all")
    };
    let found = of(90.0, 50.0, "b").expect("a good part of all accesses");
    assert_eq!((found.severity, found.gain.value), (Severity::Info, None));
    assert_eq!(found.place.object.as_deref(), Some("b"));
    assert!(found.title.starts_with("On two NUMA nodes 50 % of its accesses to b would be remote"));
    assert!(found.advice.ends_with("a copy of it on each node would also do."));
    // Few accesses; hardly any remote; no hot function uses it.
    assert!(of(5.0, 50.0, "b").is_none() && of(90.0, 10.0, "b").is_none());
    assert!(of(90.0, 50.0, "c").is_none());
}

#[test]
fn memory_on_another_node() {
    let of = |one: RemoteFigure| Figures { remote: Ok(vec![one]), ..quiet() };
    let ids =
        |one: RemoteFigure| findings(&of(one)).found.iter().map(|one| one.id).collect::<Vec<_>>();
    // All of it; half of it, because one thread of two touched everything first.
    assert_eq!(ids(remote(95.0, 98.0)), ["remote-memory"]);
    assert_eq!(ids(remote(50.0, 98.0)), ["remote-memory"]);
    // Spread over both nodes, but each thread uses the other's part.
    assert_eq!(ids(remote(90.0, 50.0)), ["remote-memory"]);
    // Spread on purpose; only a little of it; nothing waits for it.
    assert_ne!(ids(remote(50.0, 50.0)), ["remote-memory"]);
    assert_ne!(ids(remote(10.0, 98.0)), ["remote-memory"]);
    assert_ne!(ids(RemoteFigure { waits: share(5.0), ..remote(95.0, 98.0) }), ["remote-memory"]);
    let gain = findings(&of(remote(95.0, 98.0))).found[0].gain.clone();
    // 1 s x 60 % x 95 % x (1 - 1/1.5).
    assert!((gain.value.expect("a gain") - 0.19).abs() < 1e-3, "{gain:?}");
    // How long it waits is not known: no gain is stated.
    let waits = doubtful(&percent(60.0));
    let found = findings(&of(RemoteFigure { waits: waits.into(), ..remote(60.0, 98.0) })).found;
    assert_eq!((found[0].id, found[0].severity), ("remote-memory", Severity::Info));
    assert_eq!(found[0].gain.value, None);
    // So badly that it may be little: the gain is as wide.
    let wide = Metric { low: Some(21.0), high: Some(99.0), ..percent(60.0) };
    let found =
        findings(&of(RemoteFigure { waits: wide.clone().into(), ..remote(60.0, 98.0) })).found;
    let gain = &found[0].gain;
    assert!(gain.low.expect("a low end") < 0.05 && gain.high.expect("a high end") > 0.18);
    // Of a function that hardly runs nothing is said then.
    let rare = RemoteFigure { time: about(0.05, "s"), waits: wide.into(), ..remote(60.0, 98.0) };
    assert_ne!(ids(rare), ["remote-memory"]);
}

#[test]
fn memory_on_another_node_seen_by_too_few_bursts() {
    let seen = |one: RemoteFigure| Figures { remote: Ok(vec![one]), ..quiet() };
    let few = |value: f64| {
        Metric::with_interval(Evidence::Estimated, value, "percent", (value / 5.0, 100.0), 2)
    };
    let all = findings(&seen(RemoteFigure { remote: few(95.0).into(), ..remote(95.0, 98.0) }));
    assert!(all.found.iter().all(|one| one.id != "remote-memory"), "{:?}", all.found);
    let [unjudged] = &all.unjudged[..] else { panic!("{:?}", all.unjudged) };
    assert_eq!(unjudged.id, "remote-memory");
    assert!(
        unjudged.why.text().starts_with("it may apply to sum, but there were too few bursts"),
        "{:?}",
        unjudged.why
    );
    // What is local, and what nothing waits for, is in no doubt.
    let local = remote(10.0, 98.0);
    let idle = RemoteFigure { waits: share(5.0), remote: few(95.0).into(), ..remote(95.0, 98.0) };
    for one in [local, idle] {
        assert!(findings(&seen(one)).unjudged.is_empty());
    }
}
