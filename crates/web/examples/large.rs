//! A page of a large recording, for measuring: 10 million samples in 20,000 stacks of 64 threads, 100,000 heap blocks of as
//! many call sites, each of them accessed in bursts. `cargo run --release -p web --example large FILE`, then
//! `node bench/page.mjs CHROMIUM file:///...`; or `... --example large serve`, and the address that it prints.

use std::collections::HashMap;
use std::time::Instant;

use base::{
    AllocationId, Bytes, FileOffset, ModuleId, Nanos, Pid, RemoteAddr, StackId, Tid, mixed,
};
use facts::{Allocation, AllocationCall, CounterKind, Privilege, Recording, Sample, StackNode};
use testkit::recording::RecordingBuilder;
use web::Subject;

const SAMPLES: u64 = 10_000_000;
const STACKS: u64 = 20_000;
const THREADS: i32 = 64;
const BLOCKS: u64 = 100_000;
const DEPTH: u64 = 24;
const CODES: u64 = 5000;
/// Where the blocks begin.
const HEAP: u64 = 0x1000_0000;

/// Stacks as a tree. They share their outer parts, as those of programs do.
#[derive(Default)]
struct Tree {
    nodes: Vec<StackNode>,
    known: HashMap<(Option<StackId>, FileOffset), StackId>,
}

impl Tree {
    /// `site`: the innermost frame is one of its own, as where memory is asked for.
    fn stack(&mut self, module: ModuleId, of: u64, site: bool) -> StackId {
        let mut parent = None;
        let mut node = StackId(0);
        for level in (0..DEPTH).rev() {
            let shared = mixed((of >> level) + (level << 32)) % CODES;
            let offset = FileOffset(if site && level == 0 { CODES + of } else { shared } * 16);
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
    for site in 0..BLOCKS {
        let name = format!("namespace_{}::make_{site}", site % 40);
        builder.code(module, (CODES + site) * 16, &[(&name, "/src/make.cc", 10 + site as u32)]);
    }
    for thread in 0..THREADS {
        builder.thread(100, 100 + thread, "large", 0.0, 160.0);
    }
    let mut tree = Tree::default();
    let stacks: Vec<StackId> = (0..STACKS).map(|of| tree.stack(module, of, false)).collect();
    let sites: Vec<StackId> = (0..BLOCKS).map(|of| tree.stack(module, of, true)).collect();
    accesses(&mut builder, module);
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
            time: Nanos(at * 50_000),
            pid: Pid(100),
            tid: Tid(100),
            address: RemoteAddr(HEAP + at * 4096),
            size: Bytes(512 + mixed(at) % 3584),
            call: AllocationCall::Malloc,
            stack: Some(sites[at as usize]),
            sample_every: Bytes(0),
        })
        .collect();
    recording
}

/// 100 bursts that read 8 bytes of each block, some of them more often.
fn accesses(builder: &mut RecordingBuilder, module: ModuleId) {
    // mov rax,[rdi]; dec rcx; jne
    let load = b"\x48\x8b\x07\x48\xff\xc9\x75\xf8";
    let load = builder.block(100, module, 0, load, "words 2; values rdi@0:1; ways 3");
    for burst in 0..100 {
        let touched = (0..BLOCKS / 100 * 2).map(|at| {
            let block =
                if at % 2 == 0 { burst * 1000 + at / 2 } else { mixed(at) % (burst * 1000 + 1) };
            (load, 1, vec![HEAP + block * 4096 + mixed(at) % 64 * 8])
        });
        builder.burst(100, 100, &touched.collect::<Vec<_>>());
    }
}

fn main() {
    let Some(file) = std::env::args().nth(1) else {
        eprintln!("usage: large FILE | serve");
        return;
    };
    let recording = recording();
    let began = Instant::now();
    let site = web::Site::new(&recording, "large", Vec::new(), &|_| None);
    println!("prepared in {:.1} s", began.elapsed().as_secs_f64());
    if file == "serve" {
        return match web::Server::bind(0) {
            Ok(server) => {
                println!("{}", server.address());
                server.serve(&site);
            }
            Err(error) => eprintln!("{error}"),
        };
    }
    for question in [
        "summary",
        "stacks",
        "stacks?filter=time%3D10..20",
        "hotspots?group=function&filter=function%3Dmain",
        "objects?from=0&count=200",
        "objects?from=50000&count=200&sort=loads&search=function_17",
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
