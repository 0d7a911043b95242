//! Times and sizes of a made-up recording: 60 s, 2 threads, 1 kHz, 5,000 stack frames, 20,000 faults.
//!
//! `cargo run --release -p store --example store_bench [DIR]` keeps the result in DIR when given.

#[path = "../tests/support/mod.rs"]
mod support;

use std::time::Instant;

use facts::{Fact, Sink};
use store::{Writer, open, verify};
use support::{Scratch, Shape, facts, run};

fn main() {
    let scratch = Scratch::new("bench");
    let directory =
        std::env::args_os().nth(1).map_or_else(|| scratch.path().join("r000ma"), Into::into);
    let shape = Shape { seconds: 60, threads: 2, stack_nodes: 5000, faults: 20_000 };
    let run = run(shape);
    let facts = facts(shape);
    let samples = facts.iter().filter(|fact| matches!(fact, Fact::Sample(_))).count();
    println!("{} facts, {samples} of them samples", facts.len());

    let mut writer = Writer::create(&directory, &run).expect("a new directory");
    let started = Instant::now();
    for (number, fact) in facts.iter().enumerate() {
        writer.push(fact.clone()).expect("room on the disk");
        // About once a second of the program's time.
        if number % 2400 == 0 {
            writer.flush().expect("room on the disk");
        }
    }
    writer.flush().expect("room on the disk");
    let pushed = started.elapsed();
    println!(
        "push, flush each second: {:.1} ms, {:.0} ns per fact",
        pushed.as_secs_f64() * 1e3,
        pushed.as_secs_f64() * 1e9 / facts.len() as f64
    );
    push_samples_alone(&facts, &scratch);
    let journal = writer.size().0 as f64;
    println!(
        "journal: {:.0} KB, {:.2} bytes per fact",
        journal / 1e3,
        journal / facts.len() as f64
    );

    let times: Vec<f64> = (0..5).map(|_| time(|| drop(open(&directory).expect("opens")))).collect();
    println!("open the journal: {:.1} ms (best of 5 {:.1})", times[0], best(&times));

    let started = Instant::now();
    let finished = writer.finish(&run).expect("room on the disk");
    println!("convert: {:.1} ms", started.elapsed().as_secs_f64() * 1e3);
    println!(
        "result: {:.0} KB, {:.3} MB per thread-minute",
        finished.size.0 as f64 / 1e3,
        finished.size.0 as f64 / 2e6
    );
    let mut sizes: Vec<(u64, String)> = std::fs::read_dir(&directory)
        .expect("readable")
        .flatten()
        .map(|entry| {
            (entry.metadata().map_or(0, |m| m.len()), entry.file_name().to_string_lossy().into())
        })
        .collect();
    sizes.sort();
    for (bytes, name) in sizes.iter().rev() {
        println!("    {bytes:>8} {name}");
    }

    let times: Vec<f64> = (0..9).map(|_| time(|| drop(open(&directory).expect("opens")))).collect();
    println!("open: first {:.1} ms, best of 9 {:.1} ms", times[0], best(&times));
    println!(
        "verify: {:.1} ms",
        time(|| assert!(verify(&directory).expect("verifies").is_empty()))
    );
    println!("peak resident: {}", peak_resident());
}

/// What one sample costs the collector, compression and writing included.
fn push_samples_alone(facts: &[Fact], scratch: &Scratch) {
    let samples: Vec<Fact> =
        facts.iter().filter(|fact| matches!(fact, Fact::Sample(_))).cloned().collect();
    let per_sample: Vec<f64> = (0..5)
        .map(|turn| {
            let directory = scratch.path().join(format!("samples{turn}"));
            let mut writer = Writer::create(&directory, &facts::Run::default()).expect("new");
            let milliseconds = time(|| {
                for fact in &samples {
                    writer.push(fact.clone()).expect("room on the disk");
                }
                writer.flush().expect("room on the disk");
            });
            milliseconds * 1e6 / samples.len() as f64
        })
        .collect();
    println!(
        "samples alone: first {:.0}, best of 5 {:.0} ns per sample",
        per_sample[0],
        best(&per_sample)
    );
}

fn time(work: impl FnOnce()) -> f64 {
    let started = Instant::now();
    work();
    started.elapsed().as_secs_f64() * 1e3
}

fn best(times: &[f64]) -> f64 {
    times.iter().copied().fold(f64::INFINITY, f64::min)
}

fn peak_resident() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or("unknown").to_owned()
}
