//! How long runs are, from places in them that were met by chance.
//!
//! What for: a loop's iterations in one run, where samples show how far each run had come, and none saw a whole one. What not:
//! which runs are of one kind (`analysis`).
//!
//! Of `n` places in `m` runs that are alike, the first of each lies anywhere in the first `m/n` of the length, so that the nearest
//! is on average an `m+1`th of that from the begin; likewise at the end. Their distance scatters by sqrt(2)/n of the length at most
//! (David and Nagaraja, "Order Statistics", 3rd ed., 2.3). Where places go back, a new run began. A long run has more places than a short
//! one, so the mean over runs of several kinds is the harmonic one over places (length-biased sampling: Cox, "Some sampling
//! problems in technology", 1969).
//!
//! Where runs of a kind are not alike, places are not spread evenly: if half of the runs are shorter by a part `a`, the mean is
//! less than the longest by `a/2`, and the distribution of places lies apart from an even one by `a/2 (1-a)/(1-a/2)`, which is no
//! less than 4/5 of that up to a third. So the mean may be too large by 5/4 of what the two lie apart, and of 1.36/sqrt(n) for chance (the test of Kolmogorov and Smirnov at 5 %: Massey,
//! J. Am. Stat. Assoc. 46 (1951) 68-78).
//!
//! Assumptions: places are independent (several in one run are spread more evenly than by chance), steps of a run take equal time,
//! and runs of a kind differ by a third at most, or so many do that it shows: few places are in short runs.

use crate::interval::Z_95;
use crate::parameters::UNLIKE_RUNS;

/// A mean length of runs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RunLength {
    /// The mean over runs, in steps.
    pub length: f64,
    /// Half of its 95 % interval if runs of a kind are alike, as a part of it.
    pub scatter: f64,
    /// By which part of it it may be too large if they are not.
    pub unlike: f64,
    /// Chance alone explains how far places lie apart from an even spread (5 %).
    pub is_spread_evenly: bool,
}

/// The mean length of runs of these kinds: of each, in order of time, in which step of a run places are, from anywhere. Kinds with one place say
/// nothing; `None` if there are no others.
#[must_use]
pub fn run_length<'a>(kinds: impl Iterator<Item = &'a [f64]>) -> Option<RunLength> {
    let mut parts: Vec<f64> = Vec::new();
    let (mut runs, mut squares) = (0.0, 0.0);
    for places in kinds.filter(|places| places.len() > 1) {
        let n = places.len() as f64;
        let first = places.iter().copied().fold(f64::INFINITY, f64::min);
        let last = places.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let ways = |goes: fn(&f64, &f64) -> bool| {
            places.windows(2).filter(|two| goes(&two[0], &two[1])).count()
        };
        // Steps may be counted from the end.
        let met = 1.0 + ways(f64::lt).min(ways(f64::gt)) as f64;
        let beyond = 2.0 * met / (n * (met + 1.0));
        // A step begins at its number and ends at the next.
        let length = (last - first) / (1.0 - beyond) + 1.0;
        let begin = f64::midpoint(first, last + 1.0) - length / 2.0;
        parts.extend(places.iter().map(|place| (place + 1.0 - begin) / length));
        runs += n / length;
        squares += 2.0 / (length * length);
    }
    parts.sort_by(f64::total_cmp);
    let n = parts.len() as f64;
    // Where a step ends, all places in it count.
    let ends = (1..=parts.len()).filter(|end| parts.get(*end) != parts.get(end - 1));
    let apart = ends.map(|end| (end as f64 / n - parts[end - 1]).abs()).fold(0.0, f64::max);
    let by_chance = 1.36 / n.sqrt();
    let unlike = UNLIKE_RUNS.value * (apart + by_chance);
    let scatter = Z_95 * squares.sqrt() / runs;
    let is_spread_evenly = apart <= by_chance;
    (runs > 0.0).then_some(RunLength { length: n / runs, scatter, unlike, is_spread_evenly })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Places that were met in runs which are as often of one length as of another.
    fn met(lengths: &[u64], count: usize, seed: u64) -> Vec<f64> {
        let mut state = seed;
        let mut random = |below: u64| {
            state = base::mixed(state.wrapping_add(1));
            state % below
        };
        let longest = lengths.iter().copied().max().unwrap_or(1);
        let mut places = Vec::new();
        while places.len() < count {
            let length = lengths[random(lengths.len() as u64) as usize];
            // A long run is met more often.
            let place = random(longest);
            if place < length {
                places.push(place as f64);
            }
        }
        places
    }

    #[test]
    fn runs_that_are_alike_are_known_to_the_scatter_of_their_ends() {
        let held = (0..400).filter(|seed| {
            let places = met(&[100_000], 50, *seed);
            let found = run_length([&places[..]].into_iter()).unwrap();
            (found.length / 1e5 - 1.0).abs() <= found.scatter
        });
        let held = held.count();
        assert!((370..=395).contains(&held), "{held} of 400");
        // Short runs that places fill are known exactly.
        let found = run_length([&met(&[8], 500, 1)[..]].into_iter()).unwrap();
        assert!((found.length - 8.0).abs() < 0.05 && found.unlike < 0.15, "{found:?}");
    }

    /// Of a run that lasts 40 times as long as the time between two samples, these are evenly apart.
    #[test]
    fn the_length_of_a_single_run_has_no_bias() {
        let mean = (0..1000).map(|seed| {
            let begin = base::mixed(seed) % 1000;
            let places: Vec<f64> = (0..40).map(|at| (at * 1000 + begin) as f64).collect();
            run_length([&places[..]].into_iter()).unwrap().length / 1000.0
        });
        let mean = mean.sum::<f64>();
        assert!((mean / 40_000.0 - 1.0).abs() < 1e-3, "{mean}");
    }

    #[test]
    fn kinds_of_several_lengths_have_a_mean_over_runs() {
        let (short, long) = (met(&[1000], 100, 1), met(&[3000], 300, 2));
        let found = run_length([&short[..], &long[..], &[5.0]].into_iter()).unwrap();
        assert!((found.length / 2000.0 - 1.0).abs() < 0.02 && found.unlike < 0.15, "{found:?}");
        assert_eq!(run_length([&[5.0][..]].into_iter()), None);
    }

    /// The mean of runs that are not alike is not above, and not below by more than what is said.
    #[test]
    fn runs_of_a_kind_that_are_not_alike_are_noticed() {
        for lengths in [&[100_000, 80_000][..], &[100_000, 70_000], &[100_000, 90_000, 60_000]] {
            let mean = lengths.iter().sum::<u64>() as f64 / lengths.len() as f64;
            let held = (0..100).filter(|seed| {
                let places = met(lengths, 1000, *seed);
                let found = run_length([&places[..]].into_iter()).unwrap();
                let least = found.length * (1.0 - found.unlike);
                least <= mean && mean <= found.length * (1.0 + found.scatter)
            });
            assert!(held.count() >= 95, "{lengths:?}");
        }
    }
}
