//! Prints how fast accesses are simulated, in millions per second: irregular ones, summarised loops, and ones that L1 has;
//! with an argument only those whose name begins with it. For developers; the stored run is bench/results/cachesim.md.
//! Each figure is the best of five runs, by CPU time of the thread (Linux, `/proc/thread-self/schedstat`: its first
//! number is nanoseconds on a CPU), so that a busy machine disturbs less.

use base::{Bytes, RemoteAddr};
use cachesim::{
    Access, ColdLines, Config, Frames, Geometry, Hierarchy, Kind, LoopAccess, LoopRun, PageSize,
    SiteId,
};

const IRREGULAR: u64 = 64 << 20;
const IN_L1: u64 = 16 << 10;

fn config(llc_ways: u32) -> Config {
    let level = |bytes, ways| Geometry { bytes: Bytes(bytes), ways, line_bytes: 64 };
    Config {
        l1: level(48 << 10, 12),
        l2: Some(level(2 << 20, 16)),
        llc: Some(level(12 << 20, llc_ways)),
        cold: ColdLines::Unknown,
        frames: Frames::Scattered(PageSize::Small),
    }
}

/// Accesses all over `bytes`.
fn spread(bytes: u64, count: u64) -> Vec<Access> {
    let mut state = 1u64;
    let one = |_| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let address = RemoteAddr((1 << 32) + (state >> 20) % bytes / 8 * 8);
        Access { address, bytes: 8, kind: Kind::Read, site: SiteId(0) }
    };
    (0..count).map(one).collect()
}

fn triad(apart: u64) -> [LoopAccess; 3] {
    let stream = |site: u32, kind| {
        let start = RemoteAddr((1 << 32) + u64::from(site) * ((1 << 30) + apart));
        LoopAccess { start, stride: 8, bytes: 8, kind, site: SiteId(site) }
    };
    [stream(0, Kind::Read), stream(1, Kind::Read), stream(2, Kind::Write)]
}

/// Seconds that this thread has run.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|first| first.parse::<f64>().ok()).expect("CPU time") * 1e-9
}

fn report(what: &str, accesses: u64, work: impl FnMut(&mut Hierarchy)) {
    report_with(16, what, accesses, work);
}

fn report_with(llc_ways: u32, what: &str, accesses: u64, mut work: impl FnMut(&mut Hierarchy)) {
    if !std::env::args().nth(1).is_none_or(|chosen| what.starts_with(&chosen)) {
        return;
    }
    let mut best = f64::INFINITY;
    let mut hierarchy = Hierarchy::new(&config(llc_ways)).expect("it can be simulated");
    for _ in 0..5 {
        hierarchy.forget();
        let start = cpu_seconds();
        work(&mut hierarchy);
        best = best.min(cpu_seconds() - start);
    }
    println!("{what:55} {:8.0} M accesses/s", accesses as f64 / best * 1e-6);
}

fn main() {
    let all = |trace: &'static [Access]| {
        move |hierarchy: &mut Hierarchy| {
            trace.iter().for_each(|access| hierarchy.access(access));
        }
    };
    let irregular: &'static [Access] = spread(IRREGULAR, 4 << 20).leak();
    report("irregular over 64 MiB", irregular.len() as u64, all(irregular));
    let what = "irregular over 64 MiB, last level of 20 ways";
    report_with(20, what, irregular.len() as u64, all(irregular));
    let resident: &'static [Access] = spread(IN_L1, 4 << 20).leak();
    report("irregular over 16 KiB (in L1)", resident.len() as u64, all(resident));
    let different = 24 * 64 + 16;
    for (what, apart, iterations) in [
        ("triad of 24 MiB, summarised", different, 1 << 20),
        ("triad of 24 MiB, summarised, streams in the same sets", 0, 1 << 20),
        ("triad of 192 MiB, summarised", different, 8 << 20),
        ("triad of 768 MiB, summarised", different, 32 << 20),
    ] {
        let accesses = triad(apart);
        report(what, 3 * iterations, |hierarchy| {
            hierarchy.run(&LoopRun { accesses: &accesses, iterations, partial: 0 });
        });
    }
    let (accesses, iterations) = (triad(different), 1 << 20);
    report("triad of 24 MiB, access by access", 3 * iterations, |hierarchy| {
        for iteration in 0..iterations {
            accesses.iter().for_each(|one| hierarchy.access(&one.at(iteration)));
        }
    });
    let mut hierarchy = Hierarchy::new(&config(16)).expect("it can be simulated");
    let start = cpu_seconds();
    (0..1_000_000).for_each(|_| hierarchy.forget());
    println!("{:55} {:8.0} ns", "beginning anew", (cpu_seconds() - start) * 1e3);
}
