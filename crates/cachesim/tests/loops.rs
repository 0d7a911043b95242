//! Summarised loops give exactly the counts of their single accesses; very long streams nearly.

mod common;

use base::RemoteAddr;
use cachesim::{
    ColdLines, Config, Frames, Hierarchy, Kind, LoopAccess, LoopRun, PageSize, SiteId, SiteTally,
    Tlb, TlbConfig, TlbGeometry,
};
use common::{Random, any_config, any_kind, geometry, plain, scattered, three_levels};

fn any_loop(random: &mut Random) -> (Vec<LoopAccess>, u64, usize) {
    let accesses: Vec<LoopAccess> = (0..random.below(7))
        .map(|site| {
            let stride = random.one_of(&[0, 8, 8, 8, -8, 4, 24, -40, 64, 72, 256, -1024, 4096]);
            // Streams often begin at the same place of different pages, or right at the end of the address space.
            let near = random.one_of(&[0, 0, 8, 60, 64, 100, 1 << 12, 1 << 13, u64::MAX - 4000]);
            let start = RemoteAddr(near.wrapping_add(random.below(3) * 8));
            let bytes = random.one_of(&[8, 8, 8, 4, 1, 32, 64, 0, 130]);
            LoopAccess { start, stride, bytes, kind: any_kind(random), site: SiteId(site as u32) }
        })
        .collect();
    let partial = random.below(accesses.len() as u64 + 1) as usize;
    (accesses, random.one_of(&[0, 1, 2, 3, 50, 1000]), partial)
}

#[test]
fn loops_count_as_their_accesses_do() {
    for seed in 0..1500 {
        let mut random = Random(seed);
        let mut config = any_config(&mut random);
        if random.below(3) == 0 {
            // Large enough that nothing disturbs: the calm way.
            config.l1 = geometry(64, 8);
        }
        if random.below(4) == 0 {
            config = scattered(config, &mut random);
        }
        let mut quick = Hierarchy::new(&config).expect("it can be simulated");
        let mut slow = quick.clone();
        for _ in 0..4 {
            let (accesses, iterations, partial) = any_loop(&mut random);
            quick.run(&LoopRun { accesses: &accesses, iterations, partial });
            for iteration in 0..iterations {
                accesses.iter().for_each(|one| slow.access(&one.at(iteration)));
            }
            for one in &accesses[..partial] {
                slow.access(&one.at(iterations));
            }
            let what = format!("seed {seed}, {config:?}, {accesses:?}, {iterations}, {partial}");
            let kept = quick.tallies().len().min(slow.tallies().len());
            for (quick, slow) in quick.tallies()[..kept].iter().zip(slow.tallies()) {
                // Streams run ahead by other numbers of lines than a page has.
                let apart = quick.followed.abs_diff(slow.followed);
                assert!(apart <= slow.fills.total() / 16 + 1, "{apart} of {what}");
                assert_eq!(SiteTally { followed: slow.followed, ..*quick }, *slow, "{what}");
            }
        }
    }
}

/// One to four streams, most of them of one stride and far apart, through many times what the last level holds.
fn any_streams(random: &mut Random) -> (Vec<LoopAccess>, u64, usize) {
    let stride = random.one_of(&[8, 8, 8, -8, 1, 4, 24, -40, 64, 96, 128, -256]);
    let accesses: Vec<LoopAccess> = (0..1 + random.below(4))
        .map(|site| {
            // Far apart, in the footsteps of another, or on other sets of the same lines.
            let near = random.one_of(&[0, 0, 8, 64, 200, 5000, 40_000]) + random.below(30) * 8;
            let start =
                RemoteAddr(random.one_of(&[site, site, site, 0]) * (1 << 24) + (1 << 30) + near);
            let stride = if random.below(20) == 0 { stride + 8 } else { stride };
            let bytes = random.one_of(&[8, 8, 8, 4, 64, 100]);
            let kind = random.one_of(&[Kind::Read, Kind::Read, Kind::Write, Kind::ReadWrite]);
            LoopAccess { start, stride, bytes, kind, site: SiteId(random.below(site + 1) as u32) }
        })
        .collect();
    let partial = random.below(accesses.len() as u64 + 1) as usize;
    (accesses, random.one_of(&[300, 2000, 10_000]), partial)
}

/// Whether counts of a long stream differ by this part of its accesses at most: a stretch stands for others, and where its
/// lines begin in the round of their steps, or where its pages lie, is not the same for each.
fn are_near(quick: &SiteTally, slow: &SiteTally, part: f64) -> bool {
    let sums = |tally: &SiteTally| {
        let levels = [tally.l1, tally.l2, tally.llc];
        let hits = levels.map(|level| level.hits.iter().sum::<u64>());
        let misses = levels.map(|level| level.absent.total());
        let others = [tally.fills.total(), tally.dirtied.total()];
        [&hits[..], &misses, &others].concat()
    };
    let most = 8.0 + part * (slow.loads + slow.stores) as f64;
    let near = |(one, other): (u64, u64)| one.abs_diff(other) as f64 <= most;
    (quick.loads, quick.stores) == (slow.loads, slow.stores)
        && sums(quick).into_iter().zip(sums(slow)).all(near)
}

#[test]
fn long_streams_count_nearly_as_their_accesses_do() {
    for seed in 0..1000 {
        let mut random = Random(seed);
        let config = three_levels(&mut random);
        let mut quick = Hierarchy::new(&config).expect("it can be simulated");
        let mut slow = quick.clone();
        for step in 0..4 {
            let (accesses, iterations, partial) = any_streams(&mut random);
            quick.run(&LoopRun { accesses: &accesses, iterations, partial });
            for iteration in 0..iterations {
                accesses.iter().for_each(|one| slow.access(&one.at(iteration)));
            }
            for one in &accesses[..partial] {
                slow.access(&one.at(iterations));
            }
            // Single accesses to what the streams have left tell whether the levels are the same.
            for _ in 0..random.one_of(&[0, 100, 400]) {
                let one = accesses[random.below(accesses.len() as u64) as usize];
                let mut access = one.at(iterations.saturating_sub(random.below(2000)));
                access.kind =
                    random.one_of(&[Kind::Read, Kind::Write, Kind::Flush, Kind::WriteBack]);
                quick.access(&access);
                slow.access(&access);
            }
            let what = format!("seed {seed}, step {step}, {config:?}, {accesses:?}, {iterations}");
            let pairs = quick.tallies().iter().zip(slow.tallies());
            for (quick, slow) in pairs {
                assert!(are_near(quick, slow, 0.01), "{what}\n{quick:?}\n{slow:?}");
            }
        }
    }
}

/// Streams that follow each other at a distance that L2 holds only in part, with pages anywhere.
#[test]
fn long_streams_over_scattered_pages_count_nearly_as_their_accesses_do() {
    let config = Config {
        l2: Some(geometry(1024, 8)),
        llc: Some(geometry(2048, 16)),
        frames: Frames::Scattered(PageSize::Small),
        ..plain(geometry(64, 8))
    };
    let stream = |site: u32, start: u64, kind| LoopAccess {
        start: RemoteAddr(start),
        stride: 64,
        bytes: 8,
        kind,
        site: SiteId(site),
    };
    let ahead = stream(0, (1 << 30) + (220 << 10), Kind::Read);
    let accesses = [ahead, stream(1, 1 << 30, Kind::Read), stream(2, 1 << 32, Kind::Write)];
    let (iterations, mut quick) = (600_000, Hierarchy::new(&config).expect("it can be simulated"));
    let mut slow = quick.clone();
    quick.run(&LoopRun { accesses: &accesses, iterations, partial: 0 });
    for iteration in 0..iterations {
        accesses.iter().for_each(|one| slow.access(&one.at(iteration)));
    }
    let follows = slow.tallies()[1].l2;
    let hits: u64 = follows.hits.iter().sum();
    assert!(hits > 10_000 && follows.absent.misses > 10_000, "{follows:?}");
    for (quick, slow) in quick.tallies().iter().zip(slow.tallies()) {
        assert!(are_near(quick, slow, 0.05), "{quick:?}\n{slow:?}");
    }
}

#[test]
fn loops_translate_as_their_accesses_do() {
    for seed in 0..500 {
        let mut random = Random(seed);
        let shape = |entries, ways| TlbGeometry { entries, ways };
        let config = TlbConfig {
            small: random.one_of(&[shape(4, 4), shape(2, 1), shape(64, 64)]),
            huge: random.one_of(&[None, Some(shape(2, 2)), Some(shape(32, 4))]),
            second: random.one_of(&[None, Some(shape(12, 3))]),
            cold: random.one_of(&[ColdLines::Miss, ColdLines::Unknown]),
        };
        let mut quick = Tlb::new(&config).expect("it can be simulated");
        let mut slow = quick.clone();
        for _ in 0..4 {
            let (mut accesses, iterations, partial) = any_loop(&mut random);
            for access in &mut accesses {
                access.stride *= random.one_of(&[1, 64, 4096]);
            }
            let sizes: Vec<PageSize> = accesses
                .iter()
                .map(|_| random.one_of(&[PageSize::Small, PageSize::Huge]))
                .collect();
            quick.run(&LoopRun { accesses: &accesses, iterations, partial }, &sizes);
            let body = || accesses.iter().zip(&sizes);
            for iteration in 0..iterations {
                body().for_each(|(one, size)| slow.access(&one.at(iteration), *size));
            }
            body().take(partial).for_each(|(one, size)| slow.access(&one.at(iterations), *size));
            let kept = quick.tallies().len().min(slow.tallies().len());
            let what = format!("seed {seed}, {config:?}, {accesses:?}, {sizes:?}, {iterations}");
            assert_eq!(quick.tallies()[..kept], slow.tallies()[..kept], "{what}");
        }
    }
}

#[test]
fn a_triad_misses_once_per_line() {
    let stream = |start: u64, kind, site| {
        let start = RemoteAddr(start);
        LoopAccess { start, stride: 8, bytes: 8, kind, site: SiteId(site) }
    };
    let accesses = [
        stream(1 << 20, Kind::Read, 0),
        stream(2 << 20, Kind::Read, 1),
        stream(3 << 20, Kind::Write, 2),
    ];
    let mut hierarchy = Hierarchy::new(&plain(geometry(64, 8))).expect("it can be simulated");
    let run = LoopRun { accesses: &accesses, iterations: 80_000, partial: 2 };
    hierarchy.run(&run);
    for (site, executions, lines) in [(0, 80_001, 10_001), (1, 80_001, 10_001), (2, 80_000, 10_000)]
    {
        let tally = &hierarchy.tallies()[site];
        assert_eq!(tally.loads + tally.stores, executions);
        assert_eq!(tally.l1.absent.misses, lines);
        // All three lie in one set.
        assert_eq!(tally.l1.hits[2], executions - lines);
        assert_eq!(tally.fills.misses, lines);
        assert_eq!(tally.dirtied.misses, if site == 2 { lines } else { 0 });
    }
}
