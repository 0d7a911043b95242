//! Each rule on figures written by hand: one set that it must speak on, and near-misses on which it must not.
//!
//! What for: the figures that all share, and what concerns no rule alone. What not: the rules, each in the file of its kind.

mod accesses;
mod flushes;
mod system;
mod threads;

use analysis::Figure;
use analysis::accesses::Pattern;
use analysis::findings::{
    FaultFigures, Figures, FlushFigure, HotFunction, HotSite, LockWait, NamedLocation, NotJudged,
    Restarts, Spent, SystemFigures, Traced, WaitFigures, Waited, findings,
};
use analysis::memory::Class;
use analysis::page_costs::PageCosts;
use facts::{Evidence, Metric};

/// A figure with an interval of a tenth to both sides.
fn about(value: f64, unit: &str) -> Metric {
    let interval = (value * 0.9, value * 1.1);
    Metric::with_interval(Evidence::Estimated, value, unit, interval, 20)
}

fn percent(value: f64) -> Metric {
    let metric = about(value, "percent");
    Metric { high: metric.high.map(|high| high.min(100.0)), ..metric }
}

/// What rules ask of it.
fn share(value: f64) -> Figure {
    percent(value).into()
}

/// The same with an interval that says nothing.
fn doubtful(metric: &Metric) -> Metric {
    Metric { low: Some(0.0), high: Some(metric.value.unwrap_or(0.0) * 2.0), ..metric.clone() }
}

fn place(function: &str) -> NamedLocation {
    let file = Some("/src/program.c".to_owned());
    let function = Some(function.to_owned());
    NamedLocation { function, file, line: Some(12), ..NamedLocation::default() }
}

fn site(pattern: Pattern) -> HotSite {
    let used = Metric::counted(if pattern == Pattern::Unit { 100.0 } else { 12.5 }, "percent");
    HotSite {
        place: place("loop"),
        reads: true,
        writes: false,
        pattern,
        stride_share: percent(99.0),
        bytes: 8.0,
        line_use: used.clone(),
        used_together: used,
        share: percent(90.0).into(),
        walks: about(0.0, "count/s").into(),
        restarts: Restarts::default(),
        walk: None,
        of_object: Metric::unavailable("percent", "no objects"),
    }
}

/// A function with one site that waits for three quarters of its time.
fn hot(site: HotSite) -> HotFunction {
    HotFunction {
        place: place("loop"),
        time: about(1.0, "s"),
        waits: share(75.0),
        of_reach: share(20.0),
        overwritten: share(1.0),
        fitting: about(1e6, "bytes"),
        serial: Metric::counted(0.0, "percent"),
        sites: vec![site],
    }
}

/// Seconds in the allocator, and of these outside of the kernel.
fn spent(time: Metric, in_program: Metric) -> Spent {
    Spent { time, in_program, counting: Metric::counted(0.0, "s"), place: place("piece") }
}

/// One thread that computed for a second; nothing is slow.
fn quiet() -> Figures {
    let none = || Metric::counted(0.0, "s");
    Figures {
        elapsed: 1.0,
        running: 1.0,
        cpu_time: Metric::counted(1.0, "s"),
        usable_cpus: Some(4.0),
        quota: None,
        other_percent: Metric::counted(0.0, "percent"),
        displaced: 0.0,
        waiting: none(),
        walk_cost: Some(about(30.0, "ns")),
        store_rate: None,
        virtualised: false,
        traced: Ok(Traced::default()),
        shared: Ok(Vec::new()),
        flushes: Ok(Vec::new()),
        faults: FaultFigures {
            time: none(),
            release: none(),
            huge: 0.0,
            minor: Metric::counted(100.0, "count"),
            major: Metric::counted(0.0, "count"),
            place: place("fill"),
            place_percent: 90.0,
            resident_pages: Some(1000.0),
            of_files_percent: 0.0,
            of_one_process: Some(100.0),
            huge_percent: Metric::counted(0.0, "percent"),
            costs: PageCosts {
                small: Some(about(700.0, "ns")),
                large: Some(about(60_000.0, "ns")),
                ..PageCosts::default()
            },
            transparent: Some("madvise".to_owned()),
        },
        allocator: Ok(spent(none(), none())),
        threads: Ok(Vec::new()),
        runnable: Metric::unavailable("count", "nobody looked"),
        rounds: Vec::new(),
        waits: Ok(waits_of(0.0, 0.0, 0.0)),
        system: SystemFigures {
            throttled: none(),
            io_wait: none(),
            swapped: Metric::counted(0.0, "count"),
        },
        entries: Ok(Vec::new()),
        remote: Ok(Vec::new()),
        used_by_all: None,
        command: vec!["./program".to_owned(), "a b".to_owned()],
    }
}

/// Four threads that lived for a second each and ran when they did not wait: for one lock, at barriers, for files.
fn waits_of(lock: f64, barriers: f64, io: f64) -> WaitFigures {
    let seconds = |seconds| Metric::counted(seconds, "s");
    let lock_place = NamedLocation { object: Some("queue".to_owned()), ..place("push") };
    WaitFigures {
        workers: 4.0,
        lived: 4.0,
        useful: 4.0 - lock - barriers - io,
        locks: vec![LockWait {
            place: lock_place,
            time: seconds(lock),
            waits: Metric::counted(1000.0, "count"),
        }],
        barriers: Waited { time: seconds(barriers), place: place("step") },
        io: Waited { time: seconds(io), place: place("load") },
    }
}

fn with_function(function: HotFunction) -> Figures {
    Figures { traced: Ok(Traced { functions: vec![function], ..Traced::default() }), ..quiet() }
}

fn ids(figures: &Figures) -> Vec<&'static str> {
    findings(figures).found.iter().map(|finding| finding.id).collect()
}

const NOTHING: [&str; 0] = [];

#[test]
fn nothing_is_found_where_nothing_is_slow() {
    let found = findings(&quiet());
    assert!(found.found.is_empty() && found.unjudged.is_empty());
}

#[test]
fn core_bound_is_said_where_nothing_else_is() {
    let bound = |share| Traced {
        class: Some((Class::Core, "93 % of its time is no-miss time".to_owned())),
        memory_bound: Some(share),
        functions: vec![hot(site(Pattern::Unit))],
        ..Traced::default()
    };
    let with = |share| Figures { traced: Ok(bound(share)), ..quiet() };
    assert_eq!(ids(&with(percent(7.0))), ["core-bound"]);
    assert_eq!(ids(&with(doubtful(&percent(25.0)))), NOTHING);
    let few = Traced { ceiling: Some(2.0), ..Traced::default() };
    assert_eq!(ids(&Figures { traced: Ok(few), ..quiet() }), ["core-bound"]);
    // Nor is it said where threads could not be compared.
    let uncompared = Figures { shared: Err("no two bursts".into()), ..with(percent(7.0)) };
    assert_eq!(ids(&uncompared), NOTHING);
    // Nor where threads spin: one second of CPU time, of which they computed the half.
    let half = threads::thread(0, 0.5, (0.0, 1.0));
    assert_eq!(ids(&Figures { threads: Ok(vec![half]), ..with(percent(7.0)) }), NOTHING);
    let mut slow = with(percent(7.0));
    let half = about(0.5, "s");
    slow.allocator = Ok(spent(half.clone(), half));
    assert_eq!(ids(&slow), ["allocator-churn"]);
}

#[test]
fn what_cannot_be_judged_says_why() {
    let figures = Figures {
        traced: Err("no burst was taken: see coverage for the reasons".into()),
        threads: Err("no samples".into()),
        ..quiet()
    };
    let found = findings(&figures);
    assert!(found.found.is_empty());
    let unjudged: Vec<&str> = found.unjudged.iter().map(|rule| rule.id).collect();
    let traced = ["bandwidth-saturated", "non-temporal-stores", "pointer-chase", "strided-walk"];
    let rest = ["low-line-use", "repeated-loads", "tlb-bound", "load-imbalance", "oversubscribed"];
    let threads = ["barrier-waits"];
    assert_eq!(unjudged, [traced.as_slice(), rest.as_slice(), threads.as_slice()].concat());
    let unfollowed = Figures {
        waits: Err(NotJudged::OtherAnalysis("run `fathom collect threading`".to_owned())),
        entries: Err(NotJudged::OtherAnalysis("run `fathom collect system-overview`".to_owned())),
        quota: Some(2.0),
        system: SystemFigures {
            throttled: Metric::unavailable("s", "not counted"),
            io_wait: Metric::unavailable("s", "not counted"),
            swapped: Metric::unavailable("count", "not counted"),
        },
        ..quiet()
    };
    let unjudged: Vec<&str> = findings(&unfollowed).unjudged.iter().map(|rule| rule.id).collect();
    let six =
        ["lock-contention", "barrier-waits", "cpu-quota", "swapping", "io-bound", "kernel-entries"];
    assert_eq!(unjudged, six);
}
