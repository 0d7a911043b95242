//! Entries into the kernel with answers that can be worked out by hand.

use analysis::faults::fault_cost;
use analysis::kernel::{EntryRow, entry_table, entry_time, kernel_figures};
use analysis::{Filter, Key, Profile, Selection};
use base::{CpuId, Nanos, Pid, Tid};
use facts::{Evidence, KernelCause, KernelEntry, Recording, Target};
use testkit::recording::RecordingBuilder;

const MS: u64 = 1_000_000;

fn entry(
    time: u64,
    pid: i32,
    cause: KernelCause,
    name: &str,
    count: u64,
    own: Option<u64>,
) -> KernelEntry {
    KernelEntry {
        time: Nanos(time * MS),
        length: Nanos(100 * MS),
        pid: Pid(pid),
        tid: Tid(pid),
        cpu: Some(CpuId(u32::from(time > 100))),
        cause,
        name: name.to_owned(),
        count,
        own: own.map(|ms| Nanos(ms * MS)),
        waited: Nanos(if cause == KernelCause::RunQueue { 7 * MS } else { 0 }),
    }
}

/// Program 1 and everybody else (0), in two bins of 100 ms; the first 50 of 200 ms of samples are inside of page faults.
fn recording() -> Recording {
    use KernelCause::{MemoryEvent, PageFault, RunQueue, Switch, SystemCall};
    let mut b = RecordingBuilder::new();
    b.recording.run.target = Some(Target::Launched { pid: 1 });
    b.recording.run.elapsed_ns = 200 * MS;
    b.recording.run.collector.kernel_samples = true;
    b.thread(1, 1, "app", 0.0, 0.2);
    let app = b.file("/opt/app");
    let kernel = b.kernel();
    let main = b.code(app, 0x10, &[("main", "main.c", 5)]);
    let fault = b.code(kernel, 0xffff_ffff_8100_0000, &[("asm_exc_page_fault", "", 0)]);
    let (busy, faulting) = (b.stack(&[main]), b.stack(&[fault, main]));
    b.kernel_samples(1, 1, faulting, 50).samples(1, 1, busy, 150);
    b.recording.kernel_entries = vec![
        entry(100, 1, PageFault, "in program", 1000, None),
        entry(100, 1, SystemCall, "read", 10, Some(4)),
        entry(100, 0, SystemCall, "read", 500, Some(30)),
        entry(200, 1, SystemCall, "read", 30, Some(6)),
        entry(200, 1, Switch, "voluntary", 12, None),
        entry(200, 1, RunQueue, "ready, no CPU", 12, None),
        entry(200, 0, MemoryEvent, "page read from swap", 3, None),
    ];
    b.build()
}

/// `what count own-ms`, in the order of the rows.
fn rows(profile: &Profile<'_>, selection: &Selection, keys: &[Key]) -> Vec<String> {
    let table = entry_table(profile, selection, keys, 10);
    let shown = table.rows.iter().map(|row| {
        let what = match (&row.key.cause, row.key.process, row.key.cpu, row.key.time) {
            (Some((_, name)), ..) => name.clone(),
            (_, Some(pid), ..) => format!("pid {pid}"),
            (_, _, Some(cpu), _) => format!("cpu {cpu}"),
            (.., Some(time)) => format!("{} ms", time.0 / MS),
            _ => "?".to_owned(),
        };
        format!("{what} {} {}", row.count, row.own.0 / MS)
    });
    shown.collect()
}

#[test]
fn each_grouping_divides_the_same_entries() {
    let recording = recording();
    let profile = Profile::new(&recording);
    let all = Selection::default();
    assert_eq!(
        rows(&profile, &all, &[]),
        [
            "in program 1000 0",
            "read 40 10",
            "voluntary 12 0",
            "ready, no CPU 12 0",
            "page read from swap 3 0"
        ]
    );
    assert_eq!(rows(&profile, &all, &[Key::Process]), ["pid 1 1040 10", "pid 0 500 30"]);
    assert_eq!(rows(&profile, &all, &[Key::Cpu]), ["cpu 0 1010 4", "cpu 1 30 6"]);
    assert_eq!(rows(&profile, &all, &[Key::Time]), ["0 ms 1010 4", "100 ms 30 6"]);
    for keys in [&[][..], &[Key::Cpu], &[Key::Time], &[Key::Thread, Key::Cause]] {
        let total = entry_table(&profile, &all, keys, 10).total;
        assert_eq!(
            (total.count, total.switches, total.ready),
            (1040, 12, Nanos(7 * MS)),
            "{keys:?}"
        );
    }
}

#[test]
fn filters_choose_bins_and_threads() {
    let recording = recording();
    let profile = Profile::new(&recording);
    let late =
        Selection::resolve(&profile, &[Filter::Time { start: 0.1, end: 1.0 }]).expect("within");
    assert_eq!(rows(&profile, &late, &[Key::Process]), ["pid 1 30 6"]);
    let app = Selection::resolve(&profile, &[Filter::Process("app".into())]).expect("it is there");
    assert_eq!(rows(&profile, &app, &[Key::Process]), ["pid 1 1040 10"]);
}

#[test]
fn time_of_faults_is_sampled_and_added() {
    let recording = recording();
    let profile = Profile::new(&recording);
    let figures = kernel_figures(&profile);
    assert_eq!(figures.entries.value, Some(1040.0));
    assert_eq!(figures.per_second.value, Some(5200.0));
    let time = figures.time;
    assert_eq!(time.evidence, Some(Evidence::Sampled));
    let value = time.value.expect("sampled");
    // A quarter of 200 samples of a bit over 1 ms, and 10 ms of system calls.
    assert!((value - 0.0602).abs() < 0.001, "{value}");
    assert!(time.low < time.value && time.value < time.high);
    let table = entry_table(&profile, &Selection::default(), &[], 10);
    let read = table.rows.iter().find(|row| row.untimed == 0 && row.count == 40).expect("read");
    assert_eq!(entry_time(&profile, read).evidence, Some(Evidence::Counted));
}

/// Faults of the second bin were timed: the samples in it are of these.
#[test]
fn faults_that_were_timed_are_not_sampled_too() {
    let mut recording = recording();
    let sampled = kernel_figures(&Profile::new(&recording)).time.value.expect("sampled");
    let timed = entry(200, 1, KernelCause::PageFault, "in program", 50, Some(20));
    recording.kernel_entries.push(timed);
    let faulting = recording.samples[0].stack;
    let late = recording.samples.iter_mut().filter(|sample| sample.time > Nanos(180 * MS));
    late.for_each(|sample| sample.stack = faulting);
    let profile = Profile::new(&recording);
    let both = kernel_figures(&profile).time;
    assert_eq!(both.evidence, Some(Evidence::Sampled));
    assert!((both.value.expect("sampled") - sampled - 0.020).abs() < 1e-6, "{both:?}");
    // What page faults cost is what their row has, in all views.
    let table = entry_table(&profile, &Selection::default(), &[], 10);
    let of_faults = |row: &&EntryRow| {
        row.key.cause.as_ref().is_some_and(|(cause, _)| *cause == KernelCause::PageFault)
    };
    let row = table.rows.iter().find(of_faults).expect("faults");
    let cost = fault_cost(&profile);
    assert_eq!(cost.time, entry_time(&profile, row));
    let seconds = profile.counted_cpu_seconds().unwrap_or(0.2);
    let percent = cost.time.value.expect("a time") / seconds * 100.0;
    assert!((cost.percent.value.expect("a share") - percent).abs() < 0.1 * percent, "{cost:?}");
}

#[test]
fn counts_of_the_machine_are_no_counts_of_the_program() {
    let mut recording = recording();
    recording.kernel_entries.retain(|entry| entry.pid == Pid(0));
    let profile = Profile::new(&recording);
    assert_eq!(kernel_figures(&profile).entries.value, None);
    let shown = rows(&profile, &Selection::default(), &[]);
    assert_eq!(shown, ["read 500 30", "page read from swap 3 0"]);
}

#[test]
fn without_entries_every_figure_says_why() {
    let recording = Recording::default();
    let figures = kernel_figures(&Profile::new(&recording));
    for metric in
        [figures.entries, figures.per_second, figures.time, figures.switches, figures.ready]
    {
        assert!(metric.value.is_none() && metric.note.is_some());
    }
}
