//! Counted events by code against known answers: what samples of a known program give.

use analysis::counted_code::CountedCode;
use analysis::uarch::by_code;
use analysis::{Key, Profile, Selection};
use base::{Nanos, Pid, StackId, Tid, mixed};
use facts::{CountedEvent, EventCount, EventSample, Privilege, Recording};
use testkit::recording::RecordingBuilder;

const PID: i32 = 700;

/// Two functions, and events with their groups; samples are (event, function, weight), one per microsecond.
fn recording(events: &[(&str, u32)], samples: &[(u32, usize, u64)]) -> Recording {
    let mut builder = RecordingBuilder::new();
    let file = builder.file("/home/user/solver");
    let mut stack = |at, name: &str| {
        let code = builder.code(file, at, &[(name, "/home/user/solver.c", at as u32)]);
        builder.stack(&[code])
    };
    let stacks: [Option<StackId>; 2] = [stack(0x100, "one"), stack(0x200, "other")];
    builder.thread(PID, PID, "solver", 0.0, 1.0);
    let mut recording = builder.build();
    for ((name, group), id) in events.iter().zip(0..) {
        let (name, group) = ((*name).to_owned(), *group);
        recording.counted_events.push(CountedEvent {
            id,
            name,
            group,
            kernel: true,
            ..CountedEvent::default()
        });
    }
    recording.event_samples = (0..)
        .zip(samples)
        .map(|(at, (event, function, weight))| EventSample {
            // The events of a group that is read come at the same time.
            time: Nanos(at / events.len() as u64 * 1000),
            pid: Pid(PID),
            tid: Tid(PID),
            cpu: None,
            stack: stacks[*function],
            privilege: Privilege::User,
            event: *event,
            weight: *weight,
        })
        .collect();
    recording
}

/// Cycles per instruction of function `one`: value, low, high.
fn cpi(recording: &Recording) -> Result<(f64, f64, f64), String> {
    let profile = Profile::new(recording);
    let rows = by_code(&profile, &Selection::default(), &[Key::Function])?.rows;
    let row = rows.iter().find(|row| profile.stacks.function_of(row.place).name == "one");
    let cpi = row.expect("a row").cpi.clone();
    match (cpi.value, cpi.low, cpi.high) {
        (Some(value), Some(low), Some(high)) => Ok((value, low, high)),
        _ => Err(cpi.note.unwrap_or_default()),
    }
}

/// Numbers that look random, in [0, 1).
fn even(seed: u64) -> f64 {
    (mixed(seed) >> 11) as f64 / (1_u64 << 53) as f64
}

/// 95 % of the intervals of counters with samples of their own have the truth: 0.5 cycles per instruction, 40 and 80 samples on
/// average.
#[test]
fn intervals_of_events_with_own_samples_have_the_truth() {
    let trials = 200;
    let mut covered = 0;
    for trial in 0..trials {
        let mut samples = Vec::new();
        for (event, mean) in [(0, 40.0), (1, 80.0)] {
            let hits =
                (0..2000).filter(|at| even(mixed(trial) ^ (at << 8) ^ event) < mean / 2000.0);
            samples.extend(hits.map(|_| (event as u32, 0, 1000)));
        }
        let (value, low, high) =
            cpi(&recording(&[("cycles", 0), ("instructions", 1)], &samples)).expect("a ratio");
        assert!(low < value && value < high);
        covered += u64::from(low <= 0.5 && 0.5 <= high);
    }
    assert!((trials * 92 / 100..=trials * 99 / 100).contains(&covered), "{covered} of {trials}");
}

/// Of a group that samples read, what both events have in common cancels; what they have not is in the interval.
#[test]
fn a_group_knows_its_ratio_better_than_its_counts() {
    let of = |spread: f64, seed: u64| {
        let mut samples = Vec::new();
        for at in 0..60 {
            let cycles = 1000 + mixed(seed ^ at) % 500;
            let factor = 2.0 + spread * (even(seed ^ (at << 20)) - 0.5);
            samples.push((0, 0, cycles));
            samples.push((1, 0, (cycles as f64 * factor) as u64));
        }
        cpi(&recording(&[("cycles:u", 0), ("instructions:u", 0)], &samples)).expect("a ratio")
    };
    let (value, low, high) = of(0.0, 1);
    assert!((value - 0.5).abs() < 1e-9 && high - low < 1e-6, "{low} {value} {high}");
    let trials = 200;
    let covered = (0..trials).filter(|seed| {
        let (_, low, high) = of(2.0, seed << 40);
        high - low > 0.02 && low <= 0.5 && 0.5 <= high
    });
    let covered = covered.count() as u64;
    assert!(covered >= trials * 88 / 100, "{covered} of {trials}");
}

/// Samples say which part of the count is of which function; the counter, which took turns, how much that is.
#[test]
fn samples_share_the_whole_count() {
    let samples: Vec<(u32, usize, u64)> =
        (0..400).map(|at| (0, usize::from(at % 4 == 0), 1000)).collect();
    let mut recording = recording(&[("cache-misses", 0)], &samples);
    recording.event_counts = (1..=20)
        .map(|at| EventCount {
            time: Nanos(at * 1000),
            event: 0,
            count: 20_000 + mixed(at) % 1000,
            enabled: Nanos(100),
            running: Nanos(25),
        })
        .collect();
    let whole: u64 = recording.event_counts.iter().map(|one| one.count * 4).sum();
    let profile = Profile::new(&recording);
    let code = CountedCode::new(&profile, &Selection::default(), &[Key::Function]);
    let counts: Vec<f64> =
        code.rows.iter().map(|row| code.count(row, 0).value.expect("a count")).collect();
    let expected = [0.75, 0.25].map(|part| part * whole as f64);
    for (count, expected) in counts.iter().zip(expected) {
        assert!((count / expected - 1.0).abs() < 1e-9, "{counts:?}, not {expected:?}");
    }
    let first = code.count(&code.rows[0], 0);
    assert!(
        first.low.expect("low") < counts[0] * 0.97 && first.high.expect("high") > counts[0] * 1.03
    );
}

#[test]
fn few_samples_tell_no_ratio_and_unsampled_events_no_count() {
    let two = [("cycles", 0), ("instructions", 1)];
    let one_of_each = recording(&two, &[(0, 0, 1000), (1, 0, 1000)]);
    assert_eq!(cpi(&one_of_each), Err("1 samples of it, 2 are needed".to_owned()));
    let cycles_only = recording(&two, &[(0, 0, 1000); 50]);
    assert_eq!(cpi(&cycles_only), Err("instructions were not sampled".to_owned()));
    let none = recording(&two, &[(1, 0, 1000)]);
    assert!(cpi(&none).is_err_and(|why| why.starts_with("cycles of the cores were not sampled")));
}
