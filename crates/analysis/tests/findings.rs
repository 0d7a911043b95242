//! Each rule on figures written by hand: one set that it must speak on, and near-misses on which it must not.

use analysis::accesses::Pattern;
use analysis::findings::{
    EntryFigure, FaultFigures, Figures, HotFunction, HotSite, LockWait, ReloadedLoop, RemoteFigure,
    RepeatedFunction, Restarts, Rounds, Severity, SharedFigure, Spent, SystemFigures, ThreadTime,
    Traced, WaitFigures, Waited, Walk, Where, findings,
};
use analysis::memory::Class;
use base::Pid;
use facts::{Evidence, KernelCause, Metric};

/// A figure with an interval of a tenth to both sides.
fn about(value: f64, unit: &str) -> Metric {
    let interval = (value * 0.9, value * 1.1);
    Metric::with_interval(Evidence::Estimated, value, unit, interval, 20)
}

fn percent(value: f64) -> Metric {
    let metric = about(value, "percent");
    Metric { high: metric.high.map(|high| high.min(100.0)), ..metric }
}

/// The same with an interval that says nothing.
fn doubtful(metric: &Metric) -> Metric {
    Metric { low: Some(0.0), high: Some(metric.value.unwrap_or(0.0) * 2.0), ..metric.clone() }
}

fn place(function: &str) -> Where {
    let file = Some("/src/program.c".to_owned());
    Where { function: Some(function.to_owned()), file, line: Some(12), object: None }
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
        share: percent(90.0),
        walks: about(0.0, "count/s"),
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
        waits: percent(75.0),
        of_reach: percent(20.0),
        overwritten: percent(1.0),
        floored: 100.0,
        fitting: about(1e6, "bytes"),
        serial: Metric::counted(0.0, "percent"),
        sites: vec![site],
    }
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
        traced: Ok(Traced::default()),
        shared: Ok(Vec::new()),
        faults: FaultFigures {
            time: none(),
            minor: Metric::counted(100.0, "count"),
            major: Metric::counted(0.0, "count"),
            place: place("fill"),
            place_percent: 90.0,
            resident_pages: Some(1000.0),
            of_files_percent: 0.0,
            of_one_process: Some(100.0),
            huge_percent: Metric::counted(0.0, "percent"),
            cost: (Some(about(700.0, "ns")), Some(about(60_000.0, "ns"))),
            transparent: Some("madvise".to_owned()),
        },
        allocator: Ok(Spent { time: none(), in_program: none(), place: place("work") }),
        threads: Ok(Vec::new()),
        rounds: Vec::new(),
        waits: Ok(waits_of(0.0, 0.0, 0.0)),
        system: SystemFigures {
            throttled: none(),
            io_wait: none(),
            swapped: Metric::counted(0.0, "count"),
        },
        entries: Ok(Vec::new()),
        remote: Ok(Vec::new()),
        command: vec!["./program".to_owned(), "a b".to_owned()],
    }
}

/// Four threads that lived for a second each and ran when they did not wait: for one lock, at barriers, for files.
fn waits_of(lock: f64, barriers: f64, io: f64) -> WaitFigures {
    let seconds = |seconds| Metric::counted(seconds, "s");
    let lock_place = Where { object: Some("queue".to_owned()), ..place("push") };
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
fn a_saturated_function_is_found_and_one_of_doubtful_rate_is_not() {
    let busy = HotFunction { of_reach: percent(90.0), ..hot(site(Pattern::Unit)) };
    let found = findings(&with_function(busy.clone()));
    assert_eq!(found.found[0].id, "bandwidth-saturated");
    assert_eq!(found.found[0].severity, Severity::High);
    // Half of the bytes: at most half of the second.
    assert_eq!(found.found[0].gain.value, Some(0.5));
    // It comes back to a megabyte: a quarter of that is a tile.
    let advice = &found.found[0].advice;
    assert!(advice.contains("tiles of at most 181 x 181 numbers of 8 bytes (256 KiB)"), "{advice}");
    // What a tile holds already, or whose reuse is not known, needs no other.
    for fitting in [about(1e5, "bytes"), Metric::unavailable("bytes", "bursts are short")] {
        let small = findings(&with_function(HotFunction { fitting, ..busy.clone() }));
        assert!(!small.found[0].advice.contains("tile"), "{}", small.found[0].advice);
    }
    let doubt = HotFunction { of_reach: doubtful(&busy.of_reach), ..busy.clone() };
    assert_eq!(ids(&with_function(doubt)), NOTHING);
    // Two functions of a program that is saturated as a whole are one finding.
    let whole = Traced {
        whole: Some(busy.clone()),
        functions: vec![busy.clone(), busy.clone()],
        ..Traced::default()
    };
    assert_eq!(ids(&Figures { traced: Ok(whole), ..quiet() }), ["bandwidth-saturated"]);
    let impossible =
        HotFunction { of_reach: Metric::unavailable("percent", "too much"), ..busy.clone() };
    assert_eq!(ids(&with_function(impossible.clone())), NOTHING);
    // Of the whole program that is no all-clear; the classification says the same.
    let whole = Traced { whole: Some(impossible), ..Traced::default() };
    let found = findings(&Figures { traced: Ok(whole), ..quiet() });
    assert!(found.found.is_empty() && found.unjudged[0].id == "bandwidth-saturated");
    let unhurt = HotFunction { waits: percent(10.0), ..busy.clone() };
    assert_eq!(ids(&with_function(unhurt)), NOTHING);
    let why = "this machine's bandwidth was not measured: run `fathom machine`";
    let unmeasured = HotFunction { of_reach: Metric::unavailable("percent", why), ..busy };
    let found = findings(&with_function(unmeasured));
    assert!(found.found.is_empty() && found.unjudged[0].why.contains("fathom machine"));
}

#[test]
fn stores_that_fetch_what_they_overwrite() {
    let store = HotSite { reads: false, writes: true, ..site(Pattern::Unit) };
    let copy =
        HotFunction { of_reach: percent(50.0), overwritten: percent(33.0), ..hot(store.clone()) };
    assert_eq!(ids(&with_function(copy.clone())), ["non-temporal-stores"]);
    // Four stores of 16 bytes side by side fill lines as well; one of them alone does not.
    let piece = HotSite {
        pattern: Pattern::Strided(64),
        line_use: Metric::counted(25.0, "percent"),
        used_together: Metric::counted(100.0, "percent"),
        ..store.clone()
    };
    let unrolled = HotFunction { sites: vec![piece.clone(); 4], ..copy.clone() };
    assert_eq!(ids(&with_function(unrolled)), ["non-temporal-stores"]);
    let sparse = HotFunction { sites: vec![piece], waits: percent(20.0), ..copy.clone() };
    assert_eq!(ids(&with_function(sparse)), NOTHING);
    let in_place = HotSite { reads: true, ..store };
    assert_eq!(ids(&with_function(HotFunction { sites: vec![in_place], ..copy.clone() })), NOTHING);
    assert_eq!(
        ids(&with_function(HotFunction { of_reach: percent(10.0), ..copy.clone() })),
        NOTHING
    );
    // At the limit of memory what the instructions need beside does not matter; short of it, it does.
    let unhurt = HotFunction { waits: percent(12.0), ..copy.clone() };
    assert_eq!(ids(&with_function(unhurt.clone())), NOTHING);
    let limited = HotFunction { of_reach: percent(80.0), ..unhurt };
    assert_eq!(ids(&with_function(limited)), ["non-temporal-stores"]);
    // Half of the bytes, and a fifth faster: 1 - 0.5 / 1.2 of the time.
    let all = percent(100.0);
    let fill =
        HotFunction { overwritten: percent(50.0), of_reach: all.clone(), waits: all, ..copy };
    let mut figures = with_function(fill);
    if let Ok(traced) = &mut figures.traced {
        traced.past_caches = Some(1.2);
    }
    let found = findings(&figures).found;
    let gain = &found.iter().find(|one| one.id == "non-temporal-stores").expect("found").gain;
    assert!((gain.value.expect("a gain") - 7.0 / 12.0).abs() < 1e-9, "{gain:?}");
    // At least 45 % at 90 % of the limit, no faster, for nine tenths of a second.
    assert!((gain.low.expect("a low end") - 0.9 * 0.9 * 0.45).abs() < 1e-9, "{gain:?}");
}

#[test]
fn a_chase_counts_where_it_waits() {
    let chase = hot(site(Pattern::PointerChase));
    let found = findings(&with_function(chase.clone()));
    assert_eq!(found.found[0].id, "pointer-chase");
    assert!((found.found[0].gain.value.expect("a gain") - 0.75 * 0.9).abs() < 1e-9);
    // Two fields of a node in two lines share the waits.
    let half = HotSite { share: percent(45.0), ..site(Pattern::PointerChase) };
    let twice = HotFunction { sites: vec![half.clone(), half], ..chase.clone() };
    assert_eq!(ids(&with_function(twice)), ["pointer-chase"]);
    let near = HotFunction { waits: doubtful(&chase.waits), ..chase.clone() };
    assert_eq!(ids(&with_function(near)), NOTHING);
    assert_eq!(ids(&with_function(hot(site(Pattern::Irregular)))), NOTHING);
}

#[test]
fn columns_and_records_are_told_apart_by_where_runs_start() {
    let walk = |stride, near, all| {
        let restarts = Restarts { near, all, ..Restarts::default() };
        ids(&with_function(hot(HotSite { restarts, ..site(Pattern::Strided(stride)) })))
    };
    assert_eq!(walk(32_768, 30, 30), ["strided-walk"]);
    assert_eq!(walk(32_768, 0, 0), ["strided-walk"]);
    let changing = |stride, near, all| {
        let restarts = Restarts { near, all, ..Restarts::default() };
        ids(&with_function(hot(HotSite { restarts, ..site(Pattern::Runs(stride)) })))
    };
    assert_eq!(changing(16_384, 30, 30), ["strided-walk"]);
    assert_eq!(changing(16_384, 3, 30), NOTHING);
    assert_eq!(changing(16, 30, 30), NOTHING);
    assert_eq!(walk(64, 0, 0), ["low-line-use"]);
    assert_eq!(walk(256, 0, 5), ["low-line-use"]);
    assert_eq!(walk(256, 5, 5), ["strided-walk"]);
    // Hops of pages that do not come back beside each other are neither.
    assert_eq!(walk(55_887_744, 0, 5), NOTHING);
    // All fields of the records together use the lines.
    let used_together = Metric::counted(100.0, "percent");
    let field = HotSite { share: percent(12.0), used_together, ..site(Pattern::Strided(64)) };
    let all = HotFunction { sites: vec![field; 8], ..hot(site(Pattern::Unit)) };
    assert_eq!(ids(&with_function(all)), NOTHING);
    let cached = HotFunction { waits: percent(5.0), ..hot(site(Pattern::Strided(32_768))) };
    assert_eq!(ids(&with_function(cached)), NOTHING);
}

#[test]
fn bursts_that_meet_many_columns_tell_a_walk_whose_end_none_of_them_saw() {
    let found = |moved: u64, stayed: u64, apart: u64| {
        let restarts = Restarts { moved, stayed, apart, ..Restarts::default() };
        let walk = HotSite { bytes: 4.0, restarts, ..site(Pattern::Strided(1024)) };
        ids(&with_function(hot(walk)))
    };
    assert_eq!(found(9, 1, 4), ["strided-walk"]);
    // The same field of each record, in a loop that takes several records at a time.
    assert_eq!(found(9, 1, 48), ["low-line-use"]);
    assert_eq!(found(1, 9, 4), ["low-line-use"]);
    assert_eq!(found(0, 10, 0), ["low-line-use"]);
}

#[test]
fn a_helper_that_repeats_its_loads_is_named_with_the_line_that_calls_it() {
    let helper = |seconds| {
        let one = RepeatedFunction {
            place: place("direct"),
            caller: Where { line: Some(61), ..place("triad") },
            time: about(seconds, "s"),
            loads: 3,
            per_burst: Metric::counted(50_000.0, "count"),
        };
        Figures { traced: Ok(Traced { repeated: vec![one], ..Traced::default() }), ..quiet() }
    };
    let found = findings(&helper(0.4)).found;
    assert_eq!((found[0].id, found[0].place.line), ("repeated-loads", Some(61)));
    assert_eq!(ids(&helper(0.02)), NOTHING);
}

#[test]
fn a_loop_that_loads_again_is_named_with_its_fields() {
    let with = |spared: Metric, stores| {
        let one = ReloadedLoop {
            place: place("stuff"),
            fields: vec!["writer.buffer".to_owned(), "writer.position".to_owned()],
            time: about(0.8, "s"),
            spared,
            iteration: (about(2.4, "ns"), about(0.8, "ns")),
            accesses: 5,
            stores,
        };
        Figures { traced: Ok(Traced { reloaded: vec![one], ..Traced::default() }), ..quiet() }
    };
    let found = findings(&with(percent(60.0), true)).found;
    assert_eq!((found[0].id, found[0].place.line), ("repeated-loads", Some(12)));
    assert_eq!(found[0].title, "a loop in stuff keeps writer.buffer, writer.position in memory");
    assert!(found[0].advice.contains("store them behind it"), "{}", found[0].advice);
    let found = findings(&with(percent(60.0), false)).found;
    assert!(found[0].title.ends_with("again in each iteration"), "{}", found[0].title);
    assert_eq!(ids(&with(percent(2.0), true)), NOTHING);
    assert_eq!(ids(&with(doubtful(&percent(40.0)), true)), NOTHING);
}

#[test]
fn neighbours_with_gaps_between_them_use_lines_in_part() {
    let used_together = Metric::counted(19.0, "percent");
    let rows = HotSite { used_together, ..site(Pattern::Unit) };
    let found = findings(&with_function(hot(rows))).found;
    assert_eq!(found[0].id, "low-line-use");
    assert!(found[0].advice.contains("rows without padding"), "{}", found[0].advice);
}

#[test]
fn page_walks_count_where_huge_pages_would_help() {
    let with = |walks, pattern| hot(HotSite { walks: about(walks, "count/s"), ..site(pattern) });
    let walks = with(1e7, Pattern::Irregular);
    assert_eq!(ids(&with_function(walks.clone())), ["tlb-bound"]);
    let mut huge = with_function(walks.clone());
    huge.faults.huge_percent = Metric::counted(95.0, "percent");
    assert_eq!(ids(&huge), NOTHING);
    assert_eq!(ids(&with_function(with(1e5, Pattern::Irregular))), NOTHING);
    assert_eq!(ids(&with_function(with(1e7, Pattern::Unit))), NOTHING);
    assert_eq!(ids(&with_function(with(1e7, Pattern::Strided(32)))), ["low-line-use"]);
    // Independent accesses overlap, and their walks with them: 30 % of 330 % is a part of 75 %.
    let gain = |serial| {
        let serial = Metric::counted(serial, "percent");
        findings(&with_function(HotFunction { serial, ..walks.clone() })).found[0].gain.value
    };
    assert!((gain(300.0).expect("a gain") - 0.3 * 75.0 / 330.0).abs() < 1e-9);
    assert!((gain(10.0).expect("a gain") - 0.3).abs() < 1e-9);
    let unknown = Figures { walk_cost: None, ..with_function(walks) };
    assert_eq!(findings(&unknown).unjudged[0].id, "tlb-bound");
}

fn shared(different_bytes: bool, waits: f64) -> SharedFigure {
    SharedFigure {
        different_bytes,
        conflicts: about(1e8, "count/s"),
        time: about(2.0, "s"),
        waits: percent(waits),
        place: place("count"),
        threads: 2,
    }
}

#[test]
fn shared_lines_cost_what_their_code_waits() {
    let with = |line| Figures { shared: Ok(vec![line]), running: 2.0, ..quiet() };
    let found = findings(&with(shared(true, 80.0))).found;
    assert_eq!((found[0].id, found[0].severity), ("false-sharing", Severity::High));
    assert_eq!(ids(&with(shared(false, 80.0))), ["true-sharing"]);
    // Where nobody waits it is said, without a gain.
    let found = findings(&with(shared(true, 0.0))).found;
    assert_eq!((found[0].severity, found[0].gain.value), (Severity::Info, None));
    let rare = SharedFigure { conflicts: about(1e5, "count/s"), ..shared(true, 80.0) };
    assert_eq!(ids(&with(rare)), NOTHING);
}

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
        let spent = Spent { in_program: time.clone(), time, place: place("piece") };
        Figures { allocator: Ok(spent), ..quiet() }
    };
    assert_eq!(ids(&with(0.3)), ["allocator-churn"]);
    assert_eq!(ids(&with(0.05)), NOTHING);
    // What the kernel does for free() belongs to memory that is given back and taken anew, where that is found.
    let (time, in_program) = (about(0.3, "s"), about(0.02, "s"));
    let mut unmapping = Figures { faults: faulting(0.8, 5e5, 1e4).faults, ..with(0.3) };
    unmapping.allocator = Ok(Spent { time, in_program, place: place("piece") });
    assert_eq!(ids(&unmapping), ["fault-churn"]);
}

fn thread(number: u32, cpu: f64, life: (f64, f64)) -> ThreadTime {
    let cpu = about(cpu, "s");
    let (label, main) = (format!("worker ({number})"), number == 0);
    ThreadTime { label, pid: Pid(7), main, cpu, alike: true, life }
}

fn with_threads(threads: &[ThreadTime]) -> Figures {
    let cpu = threads.iter().filter_map(|thread| thread.cpu.value).sum();
    let running = f64::max(cpu, 1.0);
    let cpu_time = Metric::counted(cpu, "s");
    Figures { threads: Ok(threads.to_vec()), cpu_time, running, ..quiet() }
}

#[test]
fn unequal_threads_that_live_together() {
    let whole = (0.0, 1.0);
    let main = thread(0, 0.0, whole);
    let unequal = [main.clone(), thread(1, 0.9, whole), thread(2, 0.2, (0.0, 0.2))];
    assert_eq!(ids(&with_threads(&unequal)), ["load-imbalance"]);
    // Somebody else had the CPU meanwhile.
    assert_eq!(ids(&Figures { displaced: 0.6, ..with_threads(&unequal) }), NOTHING);
    let equal = [main.clone(), thread(1, 0.9, whole), thread(2, 0.85, whole)];
    assert_eq!(ids(&with_threads(&equal)), NOTHING);
    let in_turn = [main.clone(), thread(1, 0.7, (0.0, 0.7)), thread(2, 0.2, (0.8, 1.0))];
    assert_eq!(ids(&with_threads(&in_turn)), NOTHING);
    assert_eq!(ids(&with_threads(&[main.clone(), thread(1, 0.9, whole)])), NOTHING);
    let elsewhere = ThreadTime { pid: Pid(8), ..thread(2, 0.2, whole) };
    assert_eq!(ids(&with_threads(&[main.clone(), thread(1, 0.9, whole), elsewhere])), NOTHING);
    // One that writes a log now and then has no part of the work.
    let other = ThreadTime { alike: false, ..thread(2, 0.2, whole) };
    assert_eq!(ids(&with_threads(&[main, thread(1, 0.9, whole), other])), NOTHING);
}

#[test]
fn unequal_threads_that_are_started_anew_for_each_step() {
    let rounds = |threads, last, others| Rounds {
        rounds: 20,
        threads,
        last: about(last, "s"),
        others: about(others, "s"),
        place: place("draw"),
    };
    let with = |one| Figures { rounds: vec![one], ..quiet() };
    let found = findings(&with(rounds(2, 0.9, 0.1))).found;
    assert_eq!((found[0].id, found[0].gain.value), ("load-imbalance", Some(0.4)));
    let title = "In 20 rounds of 2 threads one has 1.8 times the mean work of all";
    assert_eq!(found[0].title, title);
    assert_eq!(ids(&with(rounds(2, 0.5, 0.48))), NOTHING);
    assert_eq!(ids(&with(rounds(3, 0.33, 0.64))), NOTHING);
    assert_eq!(ids(&with(rounds(5, 0.9, 0.1))), NOTHING);
}

#[test]
fn more_threads_than_cpus() {
    let whole = (0.0, 1.0);
    let eight: Vec<ThreadTime> = (1..=8).map(|number| thread(number, 0.48, whole)).collect();
    assert_eq!(ids(&with_threads(&eight)), ["oversubscribed"]);
    assert_eq!(ids(&with_threads(&eight[..4])), NOTHING);
    // Their lives are long because others have the CPUs.
    let other_percent = Metric::counted(50.0, "percent");
    assert_eq!(ids(&Figures { other_percent, ..with_threads(&eight) }), NOTHING);
    // A thread per request, of which two at a time would do: they pile up because others have the CPUs.
    let crowded = |threads: &[ThreadTime]| Figures {
        other_percent: Metric::counted(50.0, "percent"),
        cpu_time: Metric::counted(2.0, "s"),
        displaced: 2.0,
        ..with_threads(threads)
    };
    let requests: Vec<ThreadTime> = (1..=50)
        .map(|number| {
            let start = f64::from(number) * 0.018;
            thread(number, 0.04, (start, (start + 0.4).min(1.0)))
        })
        .collect();
    assert_eq!(ids(&crowded(&requests)), NOTHING);
    // A pool is too large whatever others do.
    let pool: Vec<ThreadTime> = (1..=20).map(|number| thread(number, 0.1, whole)).collect();
    assert_eq!(ids(&crowded(&pool)), ["oversubscribed"]);
    let in_turn: Vec<ThreadTime> = (0..8)
        .map(|number| {
            thread(number + 1, 0.48, (f64::from(number) / 8.0, f64::from(number + 1) / 8.0))
        })
        .collect();
    assert_eq!(ids(&with_threads(&in_turn)), NOTHING);
    let quota = Figures { usable_cpus: Some(1.5), quota: Some(1.5), ..with_threads(&eight[..3]) };
    let found = findings(&quota).found;
    assert!(found[0].title.contains("quota of 1.5"), "{}", found[0].title);
}

#[test]
fn core_bound_is_said_where_nothing_else_is() {
    let bound = |share| Traced {
        class: Some((Class::Core, "93 % of its time is what its instructions need".to_owned())),
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
    let uncompared = Figures { shared: Err("no two bursts".to_owned()), ..with(percent(7.0)) };
    assert_eq!(ids(&uncompared), NOTHING);
    let mut slow = with(percent(7.0));
    let half = about(0.5, "s");
    slow.allocator = Ok(Spent { in_program: half.clone(), time: half, place: place("piece") });
    assert_eq!(ids(&slow), ["allocator-churn"]);
}

#[test]
fn what_cannot_be_judged_says_why() {
    let figures = Figures {
        traced: Err("no burst was taken: see coverage for the reasons".to_owned()),
        threads: Err("no samples".to_owned()),
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
        waits: Err("run `fathom collect threading`".to_owned()),
        entries: Err("run `fathom collect system-overview`".to_owned()),
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

fn waiting(lock: f64, barriers: f64, io: f64) -> Figures {
    Figures { waits: Ok(waits_of(lock, barriers, io)), running: 4.0, ..quiet() }
}

#[test]
fn a_lock_is_named_with_its_caller() {
    let found = findings(&waiting(1.2, 0.0, 0.0)).found;
    assert_eq!((found[0].id, found[0].severity), ("lock-contention", Severity::High));
    let title = "Threads wait 30 % of their time for the lock queue, most of it in push";
    assert_eq!(found[0].title, title);
    assert_eq!(found[0].place.object.as_deref(), Some("queue"));
    // 1.2 s over four threads, of which half may come back as other waits.
    let gain = &found[0].gain;
    assert_eq!((gain.value, gain.low, gain.high), (Some(0.3), Some(0.15), Some(0.3)));
    assert_eq!(ids(&waiting(0.2, 0.0, 0.0)), NOTHING);
    // On one CPU nobody would run instead.
    let alone = Figures { usable_cpus: Some(1.0), ..waiting(3.0, 0.0, 0.0) };
    assert_eq!(ids(&alone), NOTHING);
}

#[test]
fn barriers_count_beyond_what_uneven_threads_explain() {
    let found = findings(&waiting(0.0, 1.0, 0.0)).found;
    assert_eq!((found[0].id, found[0].gain.value), ("barrier-waits", Some(0.25)));
    assert_eq!(ids(&waiting(0.0, 0.2, 0.0)), NOTHING);
    // One of two computes for 0.9 s, the other for 0.1 s and waits for it.
    let whole = (0.0, 1.0);
    let uneven = with_threads(&[thread(1, 0.9, whole), thread(2, 0.1, whole)]);
    let waits = WaitFigures { workers: 2.0, lived: 2.0, useful: 1.0, ..waits_of(0.0, 0.8, 0.0) };
    assert_eq!(ids(&Figures { waits: Ok(waits), ..uneven }), ["load-imbalance"]);
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
        let waits = Err("not followed".to_owned());
        Figures { system, waits, waiting: Metric::counted(waiting, "s"), ..quiet() }
    };
    let found = findings(&idle(0.5, 0.5)).found;
    assert_eq!((found[0].id, found[0].severity), ("io-bound", Severity::Info));
    assert_eq!(found[0].next, ["collect", "threading", "--", "./program", "a b"]);
    assert_eq!(ids(&idle(0.5, 0.0)), NOTHING);
    assert_eq!(ids(&idle(0.05, 0.5)), NOTHING);
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
        ("kernel-entries", "1000000 calls of read go into the kernel")
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

#[test]
fn a_walk_is_blocked_for_the_second_level_and_its_array_is_named() {
    let walk = Walk {
        keeps: about(147_456.0, "bytes"),
        second_level: Metric::counted(1_048_576.0, "bytes"),
        lines: about(14_563.0, "count"),
    };
    let b = Where { object: Some("main matrix.c:155".to_owned()), ..place("loop") };
    let column = HotSite {
        place: b,
        walk: Some(walk),
        of_object: percent(99.0),
        ..site(Pattern::Strided(16_384))
    };
    let found = findings(&with_function(hot(column.clone()))).found;
    assert_eq!(found[0].id, "strided-walk");
    // The root of 14563 lines of 8 elements each is 341: 42 lines.
    let block = "at most 14563 lines (13107 to 16019), as blocks of 336 x 336 elements, at a time of main matrix.c:155";
    assert!(found[0].advice.contains(block), "{}", found[0].advice);
    assert!(found[0].evidence.iter().any(|one| one.what == "of its lines from main matrix.c:155"));
    let unseen = HotSite { walk: None, ..column };
    let found = findings(&with_function(hot(unseen))).found;
    assert!(found[0].advice.contains("fathom report reuse"), "{}", found[0].advice);
}

#[test]
fn a_loop_without_a_core_floor_is_in_doubt_not_silent() {
    let chase = |floored, waits| {
        with_function(HotFunction { floored, waits, ..hot(site(Pattern::PointerChase)) })
    };
    let open = Metric::with_interval(Evidence::Estimated, 60.0, "percent", (0.0, 95.0), 20);
    let found = findings(&chase(0.0, open.clone()));
    assert!(found.found.is_empty());
    assert_eq!((found.unjudged.len(), found.unjudged[0].id), (1, "pointer-chase"));
    assert!(found.unjudged[0].why.starts_with("how much loop waits"), "{}", found.unjudged[0].why);
    // With a floor, more bursts would tell; and what is found needs no doubt.
    let few = findings(&chase(100.0, open));
    assert!(few.found.is_empty());
    assert_eq!((few.unjudged.len(), few.unjudged[0].id), (1, "pointer-chase"));
    assert!(
        few.unjudged[0].why.contains("loop, but bursts were too few"),
        "{}",
        few.unjudged[0].why
    );
    let little = Metric::with_interval(Evidence::Estimated, 20.0, "percent", (0.0, 95.0), 20);
    assert!(findings(&chase(100.0, little)).unjudged.is_empty());
    let sure = findings(&chase(0.0, percent(75.0)));
    assert!(sure.found[0].id == "pointer-chase" && sure.unjudged.is_empty());
}

/// A function that runs on node 1 of two and goes through memory of node 0.
fn remote(part: f64, fullest: f64) -> RemoteFigure {
    RemoteFigure {
        place: place("sum"),
        time: about(1.0, "s"),
        waits: percent(60.0),
        remote: percent(part),
        fullest,
        fullest_node: 0,
        nodes: 2.0,
    }
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
    assert_ne!(ids(RemoteFigure { waits: percent(5.0), ..remote(95.0, 98.0) }), ["remote-memory"]);
    let gain = findings(&of(remote(95.0, 98.0))).found[0].gain.clone();
    // 1 s x 60 % x 95 % x (1 - 1/1.5).
    assert!((gain.value.expect("a gain") - 0.19).abs() < 1e-3, "{gain:?}");
    // How long it waits is not known, or so badly that the gain may be next to nothing: none is stated.
    let wide = Metric { low: Some(21.0), high: Some(99.0), ..percent(60.0) };
    for waits in [doubtful(&percent(60.0)), wide.clone()] {
        let found = findings(&of(RemoteFigure { waits, ..remote(60.0, 98.0) })).found;
        assert_eq!((found[0].id, found[0].severity), ("remote-memory", Severity::Info));
        assert_eq!(found[0].gain.value, None);
    }
    // Of a function that hardly runs nothing is said then.
    let rare = RemoteFigure { time: about(0.05, "s"), waits: wide, ..remote(60.0, 98.0) };
    assert_ne!(ids(rare), ["remote-memory"]);
}

#[test]
fn memory_on_another_node_seen_by_too_few_bursts() {
    let seen = |one: RemoteFigure| Figures { remote: Ok(vec![one]), ..quiet() };
    let few = |value: f64| {
        Metric::with_interval(Evidence::Estimated, value, "percent", (value / 5.0, 100.0), 2)
    };
    let all = findings(&seen(RemoteFigure { remote: few(95.0), ..remote(95.0, 98.0) }));
    assert!(all.found.iter().all(|one| one.id != "remote-memory"), "{:?}", all.found);
    let [unjudged] = &all.unjudged[..] else { panic!("{:?}", all.unjudged) };
    assert_eq!(unjudged.id, "remote-memory");
    assert!(unjudged.why.starts_with("19 to 100 % of what sum goes through"), "{}", unjudged.why);
    // What is likely local, and what nothing waits for, is in no doubt.
    let local = RemoteFigure { remote: few(10.0), ..remote(10.0, 98.0) };
    let idle = RemoteFigure { waits: percent(5.0), remote: few(95.0), ..remote(95.0, 98.0) };
    for one in [local, idle] {
        assert!(findings(&seen(one)).unjudged.is_empty());
    }
}
