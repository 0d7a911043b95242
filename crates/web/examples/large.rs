//! A page of a large recording, for measuring: 10 million samples in 20,000 stacks of 64 threads, 100,000 heap blocks of as
//! many call sites. `cargo run --release -p web --example large FILE`; then `node bench/page.mjs CHROMIUM file:///...`.

use std::collections::HashMap;
use std::time::Instant;

use base::{AllocationId, Bytes, FileOffset, ModuleId, Nanos, Pid, RemoteAddr, StackId, Tid};
use facts::{Allocation, AllocationCall, CounterKind, Privilege, Recording, Sample, StackNode};
use testkit::recording::RecordingBuilder;

const SAMPLES: u64 = 10_000_000;
const STACKS: u64 = 20_000;
const THREADS: i32 = 64;
const BLOCKS: u64 = 100_000;
const DEPTH: u64 = 24;
const CODES: u64 = 5000;

/// Numbers that look random and are the same each time (Vigna, splitmix64).
fn mixed(seed: u64) -> u64 {
    let mut x = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Stacks as a tree. They share their outer parts, as those of programs do.
#[derive(Default)]
struct Tree {
    nodes: Vec<StackNode>,
    known: HashMap<(Option<StackId>, FileOffset), StackId>,
}

impl Tree {
    fn stack(&mut self, module: ModuleId, of: u64) -> StackId {
        let mut parent = None;
        let mut node = StackId(0);
        for level in (0..DEPTH).rev() {
            let offset = FileOffset(mixed((of >> level) + (level << 32)) % CODES * 16);
            let nodes = &mut self.nodes;
            node = *self.known.entry((parent, offset)).or_insert_with(|| {
                let id = StackId(nodes.len() as u32);
                nodes.push(StackNode { id, parent, module, offset, truncated: false });
                id
            });
            parent = Some(node);
        }
        node
    }
}

fn recording() -> Recording {
    let mut builder = RecordingBuilder::new();
    let module = builder.file("/bin/large");
    for at in 0..CODES {
        let name = format!("namespace_{}::function_{at}", at % 40);
        let file = format!("/src/file_{}.cc", at % 300);
        builder.code(module, at * 16, &[(&name, &file, 10 + (at % 900) as u32)]);
    }
    for thread in 0..THREADS {
        builder.thread(100, 100 + thread, "large", 0.0, 160.0);
    }
    let mut tree = Tree::default();
    let mut stack = |of| tree.stack(module, of);
    let stacks: Vec<StackId> = (0..STACKS).map(&mut stack).collect();
    let sites: Vec<StackId> = (STACKS..STACKS + BLOCKS).map(&mut stack).collect();
    let mut recording = {
        builder.counter(CounterKind::TaskClock, SAMPLES * 1_000_000);
        builder.recording.run.elapsed_ns = 160_000_000_000;
        builder.build()
    };
    recording.stack_nodes = tree.nodes;
    recording.samples = (0..SAMPLES)
        .map(|at| Sample {
            time: Nanos(at * 16_000),
            pid: Pid(100),
            tid: Tid(100 + (at % THREADS as u64) as i32),
            cpu: None,
            weight: Nanos(1_000_000),
            // Few stacks have most of the time.
            stack: Some(
                stacks[((mixed(at) % STACKS) * (mixed(at + 1) % STACKS) / STACKS) as usize],
            ),
            privilege: if at % 9 == 0 { Privilege::Kernel } else { Privilege::User },
        })
        .collect();
    recording.allocations = (0..BLOCKS)
        .map(|at| Allocation {
            id: AllocationId(at as u32),
            time: Nanos(at * 1_600_000),
            pid: Pid(100),
            tid: Tid(100),
            address: RemoteAddr(0x1000_0000 + at * 4096),
            size: Bytes(mixed(at) % 4096),
            call: AllocationCall::Malloc,
            stack: Some(sites[at as usize]),
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
