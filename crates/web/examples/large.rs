//! A page of a large recording, for measuring: 10 million samples in 20,000 stacks of 64 threads, 100,000 heap blocks of as
//! many call sites. `cargo run --release -p web --example large FILE`; then `node bench/page.mjs CHROMIUM file:///...`.

use std::time::Instant;

use base::{AllocationId, Bytes, Nanos, Pid, RemoteAddr, Tid};
use facts::{Allocation, AllocationCall, CounterKind, Privilege, Recording, Sample};
use testkit::recording::{CodeAddress, RecordingBuilder};

const SAMPLES: u64 = 10_000_000;
const STACKS: u64 = 20_000;
const THREADS: i32 = 64;
const BLOCKS: u64 = 100_000;
const DEPTH: u64 = 24;

/// Numbers that look random and are the same each time (Vigna, splitmix64).
fn mixed(seed: u64) -> u64 {
    let mut x = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

fn recording() -> Recording {
    let mut builder = RecordingBuilder::new();
    let module = builder.file("/bin/large");
    let codes: Vec<CodeAddress> = (0..5000)
        .map(|at| {
            let name = format!("namespace_{}::function_{at}", at % 40);
            let file = format!("/src/file_{}.cc", at % 300);
            builder.code(module, at * 16, &[(&name, &file, 10 + (at % 900) as u32)])
        })
        .collect();
    for thread in 0..THREADS {
        builder.thread(100, 100 + thread, "large", 0.0, 160.0);
    }
    let stack = |of: u64| -> Vec<CodeAddress> {
        // Stacks share their outer parts, as those of programs do.
        (0..DEPTH)
            .map(|level| codes[(mixed((of >> level) + (level << 32)) % 5000) as usize])
            .collect()
    };
    let stacks: Vec<_> = (0..STACKS).map(|of| builder.stack(&stack(of))).collect();
    let sites: Vec<_> = (0..BLOCKS).map(|of| builder.stack(&stack(of + STACKS))).collect();
    let mut recording = {
        builder.counter(CounterKind::TaskClock, SAMPLES * 1_000_000);
        builder.recording.run.elapsed_ns = 160_000_000_000;
        builder.build()
    };
    recording.samples = (0..SAMPLES)
        .map(|at| Sample {
            time: Nanos(at * 16_000),
            pid: Pid(100),
            tid: Tid(100 + (at % THREADS as u64) as i32),
            cpu: None,
            weight: Nanos(1_000_000),
            // Few stacks have most of the time.
            stack: stacks[((mixed(at) % STACKS) * (mixed(at + 1) % STACKS) / STACKS) as usize],
            privilege: if at % 9 == 0 { Privilege::Kernel } else { Privilege::User },
        })
        .collect();
    recording.allocations = (0..BLOCKS)
        .map(|at| Allocation {
            id: AllocationId(at as _),
            time: Nanos(at * 1_600_000),
            pid: Pid(100),
            tid: Tid(100),
            address: RemoteAddr(0x1000_0000 + at * 4096),
            size: Bytes(mixed(at) % 4096),
            call: AllocationCall::Malloc,
            stack: sites[at as usize],
            sample_every: Bytes(0),
        })
        .collect();
    recording
}

fn main() {
    let Some(file) = std::env::args().nth(1) else {
        eprintln!("usage: large FILE");
        return;
    };
    let recording = recording();
    let began = Instant::now();
    let site = web::Site::new(&recording, "large", Vec::new(), &|_| None);
    println!("prepared in {:.1} s", began.elapsed().as_secs_f64());
    for question in [
        "summary",
        "stacks",
        "stacks?filter=time%3D10..20",
        "hotspots?group=function&filter=function%3Dmain",
    ] {
        let began = Instant::now();
        let answer = site.answer(question).unwrap_or_else(|error| error.to_string());
        println!("{question}: {:.2} s, {} bytes", began.elapsed().as_secs_f64(), answer.len());
    }
    let began = Instant::now();
    let page = web::page(&site);
    println!("page in {:.1} s, {:.2} MB", began.elapsed().as_secs_f64(), page.len() as f64 / 1e6);
    if let Err(error) = std::fs::write(&file, page) {
        eprintln!("cannot write {file}: {error}");
    }
}
