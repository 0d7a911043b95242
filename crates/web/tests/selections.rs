//! 200 drawn selections, also of marked regions: every view of the page says the same as the report. `tests/ui/selections.mjs` draws
//! and compares them.

mod support;

use base::{Nanos, Pid, Tid};
use facts::{CounterKind, MarkedPass, MarkedRegion, Recording};
use testkit::recording::RecordingBuilder;

use self::support::click_through;

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
