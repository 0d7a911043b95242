//! Processes that end before their first sample: what the samples leave out is said.

use analysis::Profile;
use analysis::summary::overview;
use facts::CounterKind;
use testkit::recording::RecordingBuilder;

/// Notes of 400 processes that used `millis` of CPU time each, of which so many samples of a millisecond were taken.
fn notes(millis: f64, samples: u64) -> Vec<String> {
    let mut builder = RecordingBuilder::new();
    builder.recording.run.elapsed_ns = 1_000_000_000;
    builder.recording.run.collector.kernel_samples = true;
    let exe = builder.file("/home/user/forks");
    let work = builder.code(exe, 1, &[("work", "forks.c", 3)]);
    let work = builder.stack(&[work]);
    for pid in 1..=400 {
        builder.thread(pid, pid, "forks", 0.0, 1.0);
    }
    builder.samples(1, 1, work, samples);
    builder.counter(CounterKind::TaskClock, (400.0 * millis * 1e6) as u64);
    overview(&Profile::new(&builder.build())).notes
}

#[test]
fn what_is_too_short_for_a_sample_is_said() {
    let says = |notes: Vec<String>| notes.iter().any(|note| note.contains("get no sample"));
    assert!(says(notes(1.0, 5)));
    // All of their time has samples; or they are long, and the samples are missing for another reason.
    assert!(!says(notes(1.0, 400)));
    assert!(!says(notes(5.0, 5)));
}
