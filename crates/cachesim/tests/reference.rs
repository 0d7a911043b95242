//! The hierarchy against one that is written as plainly as possible, on random traces and configurations.

mod common;

use base::RemoteAddr;
use cachesim::{Access, Hierarchy, Inclusion, Kind, SiteId, Thread};
use common::naive::Naive;
use common::{Random, any_access, any_config, scattered, three_levels, with_prefetch};

const LINES: u64 = 600;

#[test]
fn every_count_agrees_with_the_plain_one() {
    for seed in 0..450 {
        let mut random = Random(seed);
        let mut config = any_config(&mut random);
        if seed % 3 == 0 {
            // What analyses have, which is simulated in a quicker way.
            config = three_levels(&mut random);
        }
        if seed % 5 == 0 {
            config = scattered(config, &mut random);
        }
        let mut hierarchy = Hierarchy::new(&config).expect("it can be simulated");
        // A few lines again and again, or many: both full and half-empty sets.
        let lines = random.one_of(&[8, 60, LINES, 20_000]);
        for burst in 0..3 {
            let mut naive = Naive::new(&config);
            for _ in 0..random.one_of(&[50, 3000]) {
                let access = any_access(&mut random, lines);
                hierarchy.access(Thread(0), &access);
                naive.access(&access);
            }
            let (tallies, traffic) = hierarchy.take_tallies();
            assert_eq!(tallies, naive.tallies, "seed {seed}, burst {burst}, {config:?}");
            assert_eq!(traffic, naive.traffic, "seed {seed}, burst {burst}, {config:?}");
            hierarchy.forget();
            if config.replacement == cachesim::Replacement::Random {
                // The sequence goes on over bursts; the plain one begins anew.
                break;
            }
        }
    }
}

#[test]
fn dirtied_lines_are_the_lines_written() {
    for seed in 0..200 {
        let mut random = Random(seed);
        let mut config = any_config(&mut random);
        config = with_prefetch(config, &mut random);
        config.cores = random.one_of(&[1, 1, 2, 3]);
        let mut hierarchy = Hierarchy::new(&config).expect("it can be simulated");
        for _ in 0..3000 {
            let access = any_access(&mut random, LINES);
            hierarchy.access(Thread(random.below(3) as u32), &access);
        }
        for line in 0..LINES + 200 {
            let address = RemoteAddr(0x7000 + line * 64);
            let flush = Access { address, bytes: 1, kind: Kind::Flush, site: SiteId(0) };
            hierarchy.access(Thread(0), &flush);
        }
        let dirtied: u64 = hierarchy.tallies().iter().map(|tally| tally.dirtied.total()).sum();
        let written = hierarchy.traffic().written_lines;
        let exact = match config.inclusion {
            Inclusion::Inclusive => config.llc.is_some(),
            Inclusion::Victim => config.llc.is_some() && config.cores == 1,
            Inclusion::NonInclusive => false,
        };
        assert!(dirtied <= written, "seed {seed}: {dirtied} dirtied, {written} written");
        if exact {
            assert_eq!(dirtied, written, "seed {seed}, {config:?}");
        }
    }
}
