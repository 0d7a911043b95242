//! Drawn selections (60, or `FATHOM_DRAWN`), also of marked regions and of memory objects: every view of the page has the figures that the report has of the
//! same selection, or says in a line what they do not follow. `tests/ui/selections.mjs` draws and compares them.

mod support;

use base::{Bytes, Nanos, Pid, RemoteAddr, Tid};
use facts::{CounterKind, FaultKind, Global, MarkedPass, MarkedRegion, Recording};
use testkit::recording::RecordingBuilder;

use self::support::click_through;

const GRID: u64 = 0x60_0000;
const TABLE: u64 = 0x70_0000;

/// Bursts of two functions in two threads that load from two variables, and page faults in both.
fn accesses(builder: &mut RecordingBuilder, program: base::ModuleId) {
    for (name, start) in [("grid", GRID), ("table", TABLE)] {
        builder.recording.globals.push(Global {
            time: Nanos(0),
            pid: Pid(100),
            module: program,
            start: RemoteAddr(start),
            bytes: Bytes(1 << 16),
            name: name.into(),
        });
    }
    // mov rax, [rax]; dec rcx; jne
    let load = b"\x48\x8b\x00\x48\xff\xc9\x75\xf8";
    let blocks = [0x20, 0x40]
        .map(|offset| builder.block(100, program, offset, load, "words 2; values rax@0:1; ways 3"));
    for number in 0..10 {
        let records: Vec<_> = (0..50)
            .map(|at| {
                let start = if at % 3 == 0 { TABLE } else { GRID };
                let address = start + (at * 7919 + number * 64) % (1 << 16);
                (blocks[(at % 2) as usize], 1, vec![address & !7])
            })
            .collect();
        builder.burst(100, 100 + (number % 2) as i32, &records);
    }
    for (offset, tid, address, time) in
        [(0x20, 100, GRID, 0.2), (0x40, 101, TABLE, 0.4), (0x40, 100, GRID + 4096, 0.7)]
    {
        let at = builder.unnamed(program, offset);
        let stack = builder.stack(&[at, builder.unnamed(program, 0x10)]);
        builder.faults((100, tid), stack, FaultKind::Minor, 6, 1, time);
        for fault in builder.recording.faults.iter_mut().rev().take(6) {
            fault.address = RemoteAddr(address);
        }
    }
}

/// Two processes with three threads and three regions, functions of two modules that call each other in many ways, and samples without a pattern.
fn recording() -> Recording {
    let mut builder = RecordingBuilder::new();
    let (program, library) = (builder.file("/bin/program"), builder.file("/lib/library.so"));
    let names = ["main", "parse", "solve", "store", "copy", "wait", "alloc", "leaf"];
    let places: Vec<_> = (0_u64..)
        .zip(names)
        .map(|(at, name)| {
            let module = if at % 3 == 2 { library } else { program };
            builder.code(module, 0x10 * (at + 1), &[(name, "/src/program.c", 10 + at as u32)])
        })
        .collect();
    let threads = [(100, 100), (100, 101), (200, 200)];
    for (at, (pid, tid)) in threads.into_iter().enumerate() {
        builder.thread(pid, tid, ["program", "worker", "other"][at], 0.0, 1.0);
    }
    let mut state = 7_u32;
    let mut drawn = |below: usize| {
        // The constants of Numerical Recipes; any generator would do.
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as usize % below
    };
    for (pid, tid) in threads {
        builder.rewind(0.0);
        let mut left = 900;
        while left > 0 {
            let depth = 1 + drawn(4);
            let mut frames: Vec<_> =
                (0..depth).map(|_| places[1 + drawn(names.len() - 1)]).collect();
            frames.push(places[0]);
            let stack = builder.stack(&frames);
            let count = (1 + drawn(9)).min(left);
            builder.samples(pid, tid, stack, count as u64);
            left -= count;
        }
    }
    accesses(&mut builder, program);
    builder.counter(CounterKind::TaskClock, 2_700_000_000);
    builder.recording.run.elapsed_ns = 1_000_000_000;
    for (id, name) in [(0, "solve"), (1, "store"), (2, "once")] {
        builder.recording.marked_regions.push(MarkedRegion { id, name: name.into(), domain: None });
    }
    for round in 0..20 {
        for (at, (pid, tid)) in threads.into_iter().enumerate() {
            let mut pass = |region, from: u64, length: u64| {
                let millisecond = |time| Nanos(time * 1_000_000);
                builder.recording.marked_passes.push(MarkedPass {
                    time: millisecond(50 * round + from),
                    span: millisecond(length),
                    region,
                    pid: Pid(pid),
                    tid: Tid(tid),
                    passes: 1,
                    inside: millisecond(length),
                    own: millisecond(length),
                    ..MarkedPass::default()
                });
            };
            pass(0, 3 + 4 * at as u64, 17);
            if at > 0 {
                pass(1, 30, 5 + round);
            }
            if round == 7 && at == 1 {
                pass(2, 2, 40);
            }
        }
    }
    builder.recording.marked_passes.sort_by_key(|pass| pass.time);
    builder.build()
}

#[test]
fn every_view_says_of_a_selection_what_the_report_says() {
    let recording: &'static Recording = Box::leak(Box::new(recording()));
    let server: &'static web::Server =
        Box::leak(Box::new(web::Server::bind(0).expect("a free port")));
    let address = server.address();
    std::thread::spawn(|| {
        server.serve(&web::Site::new(recording, "r000hs", Vec::new(), &|_| None))
    });
    click_through("selections.mjs", &address, &[]);
}
