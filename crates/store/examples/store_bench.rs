//! Times and sizes of a made-up recording: 60 s, 2 threads, 1 kHz, 5,000 stack frames, 20,000 faults; before it,
//! the memory that writing and converting a long one takes, and how long the halving of its journal holds up `push`.
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
    long_run(&scratch, 0);
    long_run(&scratch, 4 << 20);
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

/// Ten minutes of 8 threads, made on the fly, so that what is resident is the writer's.
fn long_run(scratch: &Scratch, limit: u64) {
    let directory = scratch.path().join(format!("long{limit}"));
    let shape = Shape { seconds: 600, threads: 8, stack_nodes: 5000, faults: 0 };
    let run = facts::Run { limit_bytes: limit, ..run(shape) };
    let mut writer = Writer::create(&directory, &run).expect("new");
    let mut slowest = 0_f64;
    let mut samples = 0_u64;
    for second in 0..shape.seconds {
        let one = Shape { seconds: 1, stack_nodes: if second == 0 { 5000 } else { 0 }, ..shape };
        for mut fact in facts(one) {
            match &mut fact {
                Fact::Sample(sample) => {
                    sample.time.0 += second * 1_000_000_000;
                    sample.stack = Some(base::StackId((sample.time.0 % 5000) as u32));
                    samples += 1;
                }
                _ if second > 0 => continue,
                _ => {}
            }
            slowest = slowest.max(time(|| writer.push(fact).expect("room on the disk")));
        }
        slowest = slowest.max(time(|| writer.flush().expect("room on the disk")));
    }
    let (resident, journal, factor) = (peak_resident(), writer.size(), writer.thinning());
    let mut size = base::Bytes(0);
    let converted = time(|| size = writer.finish(&run).expect("room on the disk").size);
    println!("long run, limit {}: {samples} samples, 1 of {factor} kept", base::Bytes(limit));
    println!("    slowest push or flush {slowest:.1} ms; peak after collecting {resident}");
    println!("    {journal} journal to {size} in {converted:.0} ms; peak {}", peak_resident());
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
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.unwrap_or("unknown").trim().to_owned()
}
