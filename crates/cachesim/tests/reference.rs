//! The hierarchy against one that is written as plainly as possible, on random traces and configurations.

mod common;

use cachesim::{Hierarchy, SiteId};
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
            for (site, tally) in (0..).map(SiteId).zip(naive.tallies) {
                let what = format!("seed {seed}, burst {burst}, {site:?}, {config:?}");
                assert_eq!(hierarchy.take_tally(site), tally, "{what}");
            }
            hierarchy.forget();
        }
    }
}
