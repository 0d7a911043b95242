//! Small recordings with answers that can be worked out by hand.

use analysis::calltree::{Direction, call_tree};
use analysis::faults::{fault_cost, fault_table};
use analysis::hotspots::{Hotspots, hotspots};
use analysis::summary::overview;
use analysis::timeline::timeline;
use analysis::{AnalysisError, Filter, Key, Profile, Selection};
use base::{Nanos, StackId};
use facts::{
    CounterKind, Evidence, FaultKind, GaugeKind, LostSource, Metric, ModuleKind, Recording,
    StackNode,
};
use testkit::recording::RecordingBuilder;

const MS: u64 = 1_000_000;

/// `name self total` in milliseconds, in the order of the rows.
fn functions(profile: &Profile<'_>, table: &Hotspots) -> Vec<String> {
    let row = |row: &analysis::hotspots::Hotspot| {
        let name = &profile.stacks.function_of(row.place).name;
        format!("{name} {} {}", row.self_time.amount() / MS, row.total_time.amount() / MS)
    };
    table.rows.iter().map(row).collect()
}

fn select(profile: &Profile<'_>, filters: &[Filter]) -> Selection {
    Selection::resolve(profile, filters).expect("the filter names something that exists")
}

/// main -> fib -> fib -> fib, and main -> helper (inlined: leaf in helper).
fn recursion() -> Recording {
    let mut b = RecordingBuilder::new();
    let app = b.file("/opt/app");
    let main = b.code(app, 0x10, &[("main", "/src/main.c", 5)]);
    let fib = b.code(app, 0x20, &[("fib", "/src/fib.c", 2)]);
    let leaf = b.code(app, 0x30, &[("leaf", "/src/leaf.h", 9), ("helper", "/src/main.c", 12)]);
    let deep = b.stack(&[fib, fib, fib, main]);
    let shallow = b.stack(&[fib, main]);
    let inlined = b.stack(&[leaf, main]);
    b.thread(1, 1, "app", 0.0, 0.1);
    b.samples(1, 1, deep, 30).samples(1, 1, shallow, 10).samples(1, 1, inlined, 60);
    b.recording.run.elapsed_ns = 100 * MS;
    b.recording.run.collector.kernel_samples = true;
    b.build()
}

#[test]
fn recursion_counts_once_and_inlined_functions_are_rows() {
    let recording = recursion();
    let profile = Profile::new(&recording);
    let table = hotspots(&profile, &Selection::default(), &[]);
    assert_eq!(
        functions(&profile, &table),
        ["leaf 60 60", "fib 40 40", "main 0 100", "helper 0 60"]
    );
    assert_eq!(table.selected.records(), 100);
}

#[test]
fn a_function_filter_chooses_rows_and_keeps_totals() {
    let recording = recursion();
    let profile = Profile::new(&recording);
    let only = select(&profile, &[Filter::Function("main".into())]);
    let table = hotspots(&profile, &only, &[Key::Function]);
    assert_eq!(functions(&profile, &table), ["main 0 100"]);
    let by_line = hotspots(&profile, &only, &[Key::SourceLine]);
    assert_eq!(by_line.rows.len(), 1);
    let both = select(&profile, &[Filter::Function("fib".into()), Filter::Function("leaf".into())]);
    assert_eq!(functions(&profile, &hotspots(&profile, &both, &[])), ["leaf 60 60", "fib 40 40"]);
    let none =
        select(&profile, &[Filter::Function("fib".into()), Filter::SourceFile("main.c".into())]);
    assert!(hotspots(&profile, &none, &[]).rows.is_empty());
}

#[test]
fn unknown_names_are_refused_with_those_that_exist() {
    let recording = recursion();
    let profile = Profile::new(&recording);
    let refuse =
        |filter| Selection::resolve(&profile, &[filter]).expect_err("nothing matches").to_string();
    assert_eq!(
        refuse(Filter::Function("fibb".into())),
        "no function in this result matches 'fibb'; it has leaf, fib"
    );
    assert_eq!(
        refuse(Filter::Thread("2".into())),
        "no thread in this result matches '2'; it has app (1)"
    );
    let outside = Selection::resolve(&profile, &[Filter::Time { start: 3.0, end: 4.0 }]);
    assert!(matches!(outside, Err(AnalysisError::TimeOutside { .. })));
}

#[test]
fn call_stacks_merge_by_function_and_list_the_innermost_first() {
    let recording = recursion();
    let profile = Profile::new(&recording);
    let table = hotspots(&profile, &Selection::default(), &[Key::CallStack]);
    let paths = table.paths.as_ref().expect("asked for");
    let stacks: Vec<String> = table
        .rows
        .iter()
        .map(|row| {
            let names = paths.functions(row.key.stack.expect("asked for"));
            let names: Vec<&str> =
                names.map(|id| profile.stacks.functions[id.index()].name.as_str()).collect();
            format!("{} {}", names.join("<"), row.self_time.amount() / MS)
        })
        .collect();
    assert_eq!(stacks, ["leaf<helper<main 60", "fib<fib<fib<main 30", "fib<main 10"]);
}

fn tree(profile: &Profile<'_>, filters: &[Filter], direction: Direction) -> Vec<String> {
    let tree = call_tree(profile, &select(profile, filters), direction, 0.0);
    let row = |row: &analysis::calltree::CallRow| {
        let name = &profile.stacks.functions[row.function.index()].name;
        let (total, own) = (row.total_time.amount() / MS, row.self_time.amount() / MS);
        format!("{}{name} {total} {own}", ".".repeat(row.level))
    };
    tree.rows.iter().map(row).collect()
}

#[test]
fn call_trees_fold_direct_recursion() {
    let recording = recursion();
    let profile = Profile::new(&recording);
    assert_eq!(
        tree(&profile, &[], Direction::Callees),
        ["main 100 0", ".helper 60 0", "..leaf 60 60", ".fib 40 40"]
    );
    assert_eq!(
        tree(&profile, &[], Direction::Callers),
        ["leaf 60 60", ".helper 60 0", "..main 60 0", "fib 40 40", ".main 40 0"]
    );
    let helper = [Filter::Function("helper".into())];
    assert_eq!(tree(&profile, &helper, Direction::Callers), ["helper 60 0", ".main 60 0"]);
    assert_eq!(tree(&profile, &helper, Direction::Callees), ["helper 60 0", ".leaf 60 60"]);
}

#[test]
fn indirect_recursion_counts_once_in_both_directions() {
    let mut b = RecordingBuilder::new();
    let app = b.file("/opt/app");
    let a = b.code(app, 1, &[("a", "x.c", 1)]);
    let c = b.code(app, 2, &[("c", "x.c", 2)]);
    let stack = b.stack(&[c, a, c, a]);
    b.samples(1, 1, stack, 10);
    let recording = b.build();
    let profile = Profile::new(&recording);
    let table = hotspots(&profile, &Selection::default(), &[]);
    assert_eq!(functions(&profile, &table), ["c 10 10", "a 0 10"]);
    let focus = [Filter::Function("a".into())];
    assert_eq!(
        tree(&profile, &focus, Direction::Callees),
        ["a 10 0", ".c 10 0", "..a 10 0", "...c 10 10"]
    );
    assert_eq!(tree(&profile, &focus, Direction::Callers), ["a 10 0", ".c 10 0", "..a 10 0"]);
}

#[test]
fn time_is_the_share_of_the_counted_clock() {
    let mut recording = recursion();
    recording.counters.push(facts::Counter { kind: CounterKind::TaskClock, value: 200 * MS });
    recording.lost.push(facts::Lost { time: Nanos(0), source: LostSource::Samples, count: 7 });
    let profile = Profile::new(&recording);
    let table = hotspots(&profile, &Selection::default(), &[]);
    let time = profile.cpu_scale().quantity(&table.rows[0].self_time);
    assert!((time.value.expect("sampled") - 0.12).abs() < 1e-12);
    assert_eq!((time.evidence, time.samples, time.lost), (Some(Evidence::Sampled), 60, 7));
    let (low, high) = estimate::interval::wilson(0.6, 100.0);
    assert!((time.low.expect("has an interval") - low * 0.2).abs() < 1e-12);
    assert!((time.high.expect("has an interval") - high * 0.2).abs() < 1e-12);
    let note = overview(&profile).notes.join("\n");
    assert!(
        note.contains("represent 0.10 s of CPU time, the kernel counted 0.20 s (-50 %)"),
        "{note}"
    );
}

#[test]
fn page_fault_time_is_recognised_by_kernel_functions() {
    let mut b = RecordingBuilder::new();
    let app = b.file("/opt/app");
    let kernel = b.kernel();
    let init = b.code(app, 1, &[("init", "init.c", 3)]);
    let entry = b.code(kernel, 0xffff_0001, &[("asm_exc_page_fault", "", 0)]);
    let clear = b.code(kernel, 0xffff_0002, &[("clear_page_erms", "", 0)]);
    let write = b.code(kernel, 0xffff_0003, &[("ksys_write", "", 0)]);
    let fault = b.stack(&[clear, entry, init]);
    let system_call = b.stack(&[write, init]);
    let own = b.stack(&[init]);
    b.thread(1, 1, "app", 0.0, 0.2);
    b.kernel_samples(1, 1, fault, 30).kernel_samples(1, 1, system_call, 10).samples(1, 1, own, 60);
    b.faults((1, 1), fault, FaultKind::Minor, 40, 1, 0.0);
    b.counter(CounterKind::MinorFaults, 40).counter(CounterKind::MajorFaults, 0);
    b.recording.run.elapsed_ns = 200 * MS;
    b.recording.run.collector.kernel_samples = true;
    let recording = b.build();
    let profile = Profile::new(&recording);
    let cost = fault_cost(&profile);
    assert_eq!((cost.percent.value, cost.percent.evidence), (Some(30.0), Some(Evidence::Sampled)));
    let found = overview(&profile);
    assert_eq!(found.kernel_percent.value, Some(40.0));
    let near = |metric: &Metric, value: f64| (metric.value.expect("known") - value).abs() < 1e-9;
    assert!(near(&found.split.user, 0.06) && near(&found.split.kernel, 0.01));
    assert!(near(&found.split.page_faults, 0.03) && near(&found.split.waiting, 0.1));

    let faults = fault_table(&profile, &Selection::default(), &[]);
    assert_eq!(faults.rows.len(), 1);
    assert_eq!(profile.stacks.function_of(faults.rows[0].place).name, "init");
    let scale = analysis::faults::fault_scales(&recording).all;
    assert_eq!(scale.quantity(&faults.rows[0].all).evidence, Some(Evidence::Counted));
}

#[test]
fn without_kernel_functions_the_cost_of_faults_is_estimated_or_missing() {
    let mut recording = recursion();
    recording.run.collector.kernel_samples = false;
    recording.counters.push(facts::Counter { kind: CounterKind::MinorFaults, value: 10_000 });
    recording.counters.push(facts::Counter { kind: CounterKind::TaskClock, value: 100 * MS });
    assert!(fault_cost(&Profile::new(&recording)).percent.value.is_none());
    let calibration = facts::host::Calibration {
        page_fault_4k: Some(Metric::with_interval(
            Evidence::Calibrated,
            1000.0,
            "ns",
            (900.0, 1100.0),
            5,
        )),
        ..Default::default()
    };
    recording.run.calibration = Some(calibration);
    let cost = fault_cost(&Profile::new(&recording)).percent;
    let rounded = [cost.value, cost.low, cost.high].map(|value| value.map(|value| value.round()));
    assert_eq!(rounded, [Some(10.0), Some(9.0), Some(11.0)]);
    assert_eq!(cost.evidence, Some(Evidence::Estimated));
}

#[test]
fn the_timeline_adds_up_and_carries_memory_forward() {
    let mut recording = recursion();
    let gauge = |time: u64, value| facts::Gauge {
        time: Nanos(time * MS),
        pid: base::Pid(1),
        kind: GaugeKind::ResidentBytes,
        value,
    };
    recording.gauges.extend([gauge(0, 100), gauge(15, 300), gauge(18, 200), gauge(95, 50)]);
    let profile = Profile::new(&recording);
    let all = timeline(&profile, &Selection::default(), 10, false);
    assert_eq!((all.width, all.bins.len()), (Nanos(10 * MS), 10));
    let user: u64 = all.bins.iter().map(|bin| bin.user.amount()).sum();
    assert_eq!(user, 100 * MS);
    let resident: Vec<u64> = all.bins.iter().filter_map(|bin| bin.resident_bytes).collect();
    assert_eq!(resident, [100, 300, 200, 200, 200, 200, 200, 200, 200, 200]);
    let part = select(&profile, &[Filter::Time { start: 0.02, end: 0.05 }]);
    let cut = timeline(&profile, &part, 3, false);
    assert_eq!(cut.bins[0].start, Nanos(20 * MS));
    assert_eq!(cut.bins.iter().map(|bin| bin.user.records()).collect::<Vec<_>>(), [10, 10, 10]);
}

#[test]
fn an_empty_recording_gives_reasons_and_no_nan() {
    let recording = Recording::default();
    let profile = Profile::new(&recording);
    let found = overview(&profile);
    for metric in
        [&found.cpu_time, &found.cpu_utilisation, &found.kernel_percent, &found.overhead.whole]
    {
        assert!(metric.value.is_none() && metric.note.is_some(), "{metric:?}");
    }
    assert_eq!(found.elapsed.value, Some(0.0));
    assert!(found.functions.rows.is_empty());
    assert!(timeline(&profile, &Selection::default(), 10, false).bins.is_empty());
    assert!(Selection::resolve(&profile, &[Filter::Function("main".into())]).is_ok());
}

#[test]
fn a_few_ticks_of_the_clock_do_not_divide_a_short_run() {
    let kernel_percent = |user_ns, system_ns| {
        let mut recording = Recording::default();
        recording.run.resource_use =
            Some(facts::ResourceUse { user_ns, system_ns, ..Default::default() });
        overview(&Profile::new(&recording)).kernel_percent
    };
    assert_eq!(kernel_percent(600 * MS, 200 * MS).value, Some(25.0));
    let short = kernel_percent(MS, 0);
    assert!(short.value.is_none() && short.note.is_some_and(|why| why.contains("ticks")));
}

#[test]
fn damaged_stacks_are_cut_and_counted() {
    let mut b = RecordingBuilder::new();
    let app = b.file("/opt/lib/libx.so.1");
    let address = b.unnamed(app, 0x1234);
    b.stack(&[address]);
    let node = |id: u32, parent: Option<u32>, module: u32| StackNode {
        id: StackId(id),
        parent: parent.map(StackId),
        module: base::ModuleId(module),
        offset: base::FileOffset(0x99),
        truncated: false,
    };
    // Its own parent; a later parent; an id that was there; a module that is not.
    b.recording.stack_nodes.extend([
        node(7, Some(7), 0),
        node(8, Some(9), 0),
        node(0, None, 0),
        node(9, None, 77),
    ]);
    b.samples(1, 1, Some(StackId(0)), 4).samples(1, 1, Some(StackId(7)), 3);
    b.samples(1, 1, Some(StackId(9)), 2).samples(1, 1, Some(StackId(4_000_000_000)), 1);
    let recording = b.build();
    let profile = Profile::new(&recording);
    let table = hotspots(&profile, &Selection::default(), &[]);
    assert_eq!(
        functions(&profile, &table),
        ["[libx.so.1+0x1234] 4 4", "[libx.so.1+0x99] 3 3", "[unknown] 2 2", "[no stack] 1 1"]
    );
    let problems = profile.stacks.problems;
    assert_eq!(
        (problems.broken_parents, problems.duplicate_nodes, problems.unknown_modules),
        (2, 1, 1)
    );
}

#[test]
fn code_without_names_is_named_by_its_module() {
    let mut b = RecordingBuilder::new();
    let kernel = b.kernel();
    let vdso = b.module(ModuleKind::Vdso, "[vdso]");
    let jit = b.module(ModuleKind::Anonymous { pid: base::Pid(1) }, "[anon]");
    for (module, offset) in
        [(kernel, 0xffff_0001), (kernel, 0xffff_0002), (vdso, 0x20), (jit, 0x7000)]
    {
        let address = b.unnamed(module, offset);
        let stack = b.stack(&[address]);
        b.samples(1, 1, stack, 1);
    }
    let recording = b.build();
    let profile = Profile::new(&recording);
    let table = hotspots(&profile, &Selection::default(), &[]);
    assert_eq!(
        functions(&profile, &table),
        ["[kernel] 2 2", "[generated code] 1 1", "[vdso+0x20] 1 1"]
    );
}

#[test]
fn a_function_without_a_file_at_some_addresses_stays_one_row() {
    let mut b = RecordingBuilder::new();
    let app = b.file("/opt/app");
    let with = b.code(app, 1, &[("f", "f.c", 3)]);
    let without = b.code(app, 2, &[("f", "", 0)]);
    let (with, without) = (b.stack(&[with]), b.stack(&[without]));
    b.samples(1, 1, with, 1).samples(1, 1, without, 2);
    let recording = b.build();
    let profile = Profile::new(&recording);
    let table = hotspots(&profile, &Selection::default(), &[]);
    assert_eq!(functions(&profile, &table), ["f 3 3"]);
}

#[test]
fn thinned_samples_keep_their_weight_and_widen_the_interval() {
    let mut recording = recursion();
    let scale = |recording: &Recording| {
        let profile = Profile::new(recording);
        let table = hotspots(&profile, &Selection::default(), &[]);
        let percent = profile.cpu_scale().percent(&table.rows[0].self_time);
        (
            percent.value.expect("sampled"),
            percent.high.expect("sampled") - percent.low.expect("sampled"),
        )
    };
    let before = scale(&recording);
    let mut at = 0;
    recording.samples.retain(|_| {
        at += 1;
        at % 2 == 0
    });
    recording.samples.iter_mut().for_each(|sample| sample.weight = Nanos(2 * MS));
    let after = scale(&recording);
    assert_eq!(before.0, after.0);
    assert!(after.1 > before.1 * 1.3, "{before:?} {after:?}");
}
