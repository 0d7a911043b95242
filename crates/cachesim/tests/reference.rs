//! The hierarchy against one that is written as plainly as possible, on random traces and configurations.

mod common;

use base::RemoteAddr;
use cachesim::{Access, Hierarchy, Kind, SiteId};
use common::naive::Naive;
use common::{Random, any_access, any_config, scattered, three_levels};

const LINES: u64 = 600;

#[test]
fn every_count_agrees_with_the_plain_one() {
    for seed in 0..450 {
        let mut random = Random(seed);
        let mut config = any_config(&mut random);
        if seed % 3 == 0 {
            // What analyses have.
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
                hierarchy.access(&access);
                naive.access(&access);
            }
            let (tallies, traffic) = hierarchy.take_tallies();
            assert_eq!(tallies, naive.tallies, "seed {seed}, burst {burst}, {config:?}");
            assert_eq!(traffic, naive.traffic, "seed {seed}, burst {burst}, {config:?}");
            hierarchy.forget();
        }
    }
}

#[test]
fn no_more_lines_are_dirtied_than_written() {
    for seed in 0..200 {
        let mut random = Random(seed);
        let config = any_config(&mut random);
        let mut hierarchy = Hierarchy::new(&config).expect("it can be simulated");
        for _ in 0..3000 {
            let access = any_access(&mut random, LINES);
            hierarchy.access(&access);
        }
        for line in 0..LINES + 200 {
            let address = RemoteAddr(0x7000 + line * 64);
            let flush = Access { address, bytes: 1, kind: Kind::Flush, site: SiteId(0) };
            hierarchy.access(&flush);
        }
        let dirtied: u64 = hierarchy.tallies().iter().map(|tally| tally.dirtied.total()).sum();
        let written = hierarchy.traffic().written_lines;
        assert!(dirtied <= written, "seed {seed}: {dirtied} dirtied, {written} written");
    }
}
