//! Each rule on figures written by hand: one set that it must speak on, and near-misses on which it must not.

use analysis::accesses::Pattern;
use analysis::findings::{
    FaultFigures, Figures, HotFunction, HotSite, RepeatedFunction, Restarts, Severity,
    SharedFigure, Spent, ThreadTime, Traced, Where, findings,
};
use analysis::memory::Class;
use base::Pid;
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

/// The same with an interval that says nothing.
fn doubtful(metric: &Metric) -> Metric {
    Metric { low: Some(0.0), high: Some(metric.value.unwrap_or(0.0) * 2.0), ..metric.clone() }
}

fn place(function: &str) -> Where {
    let file = Some("/src/program.c".to_owned());
    Where { function: Some(function.to_owned()), file, line: Some(12), object: None }
}

fn site(pattern: Pattern) -> HotSite {
    HotSite {
        place: place("loop"),
        reads: true,
        writes: false,
        pattern,
        stride_share: percent(99.0),
        bytes: 8.0,
        line_use: Metric::counted(12.5, "percent"),
        share: percent(90.0),
        walks: about(0.0, "count/s"),
        restarts: Restarts::default(),
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
        fitting: about(1e6, "bytes"),
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
            huge_percent: Metric::counted(0.0, "percent"),
            cost: (Some(about(700.0, "ns")), Some(about(60_000.0, "ns"))),
            transparent: Some("madvise".to_owned()),
        },
        allocator: Ok(Spent { time: none(), place: place("work") }),
        threads: Ok(Vec::new()),
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
    let impossible = HotFunction { of_reach: percent(150.0), ..busy.clone() };
    assert_eq!(ids(&with_function(impossible)), NOTHING);
    let unhurt = HotFunction { waits: percent(10.0), ..busy.clone() };
    assert_eq!(ids(&with_function(unhurt)), NOTHING);
    let why = "this machine's bandwidth was not measured";
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
        ..store.clone()
    };
    let unrolled = HotFunction { sites: vec![piece.clone(); 4], ..copy.clone() };
    assert_eq!(ids(&with_function(unrolled)), ["non-temporal-stores"]);
    let sparse = HotFunction { sites: vec![piece], waits: percent(20.0), ..copy.clone() };
    assert_eq!(ids(&with_function(sparse)), NOTHING);
    let in_place = HotSite { reads: true, ..store };
    assert_eq!(ids(&with_function(HotFunction { sites: vec![in_place], ..copy.clone() })), NOTHING);
    assert_eq!(ids(&with_function(HotFunction { of_reach: percent(10.0), ..copy })), NOTHING);
}

#[test]
fn a_chase_counts_where_it_waits() {
    let chase = hot(site(Pattern::PointerChase));
    let found = findings(&with_function(chase.clone()));
    assert_eq!(found.found[0].id, "pointer-chase");
    assert!((found.found[0].gain.value.expect("a gain") - 0.75 * 0.9).abs() < 1e-9);
    let near = HotFunction { waits: doubtful(&chase.waits), ..chase.clone() };
    assert_eq!(ids(&with_function(near)), NOTHING);
    assert_eq!(ids(&with_function(hot(site(Pattern::Irregular)))), NOTHING);
}

#[test]
fn columns_and_records_are_told_apart_by_where_runs_start() {
    let walk = |stride, near, all| {
        let restarts = Restarts { near, all };
        ids(&with_function(hot(HotSite { restarts, ..site(Pattern::Strided(stride)) })))
    };
    assert_eq!(walk(32_768, 30, 30), ["strided-walk"]);
    assert_eq!(walk(32_768, 0, 0), ["strided-walk"]);
    assert_eq!(walk(64, 0, 0), ["low-line-use"]);
    assert_eq!(walk(256, 0, 5), ["low-line-use"]);
    assert_eq!(walk(256, 5, 5), ["strided-walk"]);
    // Hops of pages that do not come back beside each other are neither.
    assert_eq!(walk(55_887_744, 0, 5), NOTHING);
    // All fields of the records together use the lines.
    let field = HotSite { share: percent(12.0), ..site(Pattern::Strided(64)) };
    let all = HotFunction { sites: vec![field; 8], ..hot(site(Pattern::Unit)) };
    assert_eq!(ids(&with_function(all)), NOTHING);
    let cached = HotFunction { waits: percent(5.0), ..hot(site(Pattern::Strided(32_768))) };
    assert_eq!(ids(&with_function(cached)), NOTHING);
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
        let spent = Spent { time: about(seconds, "s"), place: place("piece") };
        Figures { allocator: Ok(spent), ..quiet() }
    };
    assert_eq!(ids(&with(0.3)), ["allocator-churn"]);
    assert_eq!(ids(&with(0.05)), NOTHING);
}

fn thread(number: u32, cpu: f64, life: (f64, f64)) -> ThreadTime {
    let cpu = about(cpu, "s");
    ThreadTime { label: format!("worker ({number})"), pid: Pid(7), main: number == 0, cpu, life }
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
    let equal = [main.clone(), thread(1, 0.9, whole), thread(2, 0.85, whole)];
    assert_eq!(ids(&with_threads(&equal)), NOTHING);
    let in_turn = [main.clone(), thread(1, 0.7, (0.0, 0.7)), thread(2, 0.2, (0.8, 1.0))];
    assert_eq!(ids(&with_threads(&in_turn)), NOTHING);
    assert_eq!(ids(&with_threads(&[main.clone(), thread(1, 0.9, whole)])), NOTHING);
    let elsewhere = ThreadTime { pid: Pid(8), ..thread(2, 0.2, whole) };
    assert_eq!(ids(&with_threads(&[main, thread(1, 0.9, whole), elsewhere])), NOTHING);
}

#[test]
fn more_threads_than_cpus() {
    let whole = (0.0, 1.0);
    let eight: Vec<ThreadTime> = (1..=8).map(|number| thread(number, 0.48, whole)).collect();
    assert_eq!(ids(&with_threads(&eight)), ["oversubscribed"]);
    assert_eq!(ids(&with_threads(&eight[..4])), NOTHING);
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
    slow.allocator = Ok(Spent { time: about(0.5, "s"), place: place("piece") });
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
    assert_eq!(unjudged, [traced.as_slice(), rest.as_slice()].concat());
}
