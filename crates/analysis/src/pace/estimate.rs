//! From pairs of samples to a pace with its interval.
//!
//! The pace is the sum of iterations over the sum of CPU time. Its interval comes from batches of pairs in order of time (batch
//! means: Law, Simulation Modeling and Analysis, 9.5.3), because the machine's speed changes slowly and neighbours resemble each
//! other. The part of the loop's time that lies in pairs is known exactly, so only the rest is uncertain (finite population
//! correction: Cochran, Sampling Techniques, 2.6). To that comes the delay of the timer's interrupt at the two ends of each chain
//! of pairs.
//!
//! Pairs alone leave out the beginning and the end of each run, which matters more the shorter it is, and a run is often slower
//! there (caches are cold, pages are new). So runs that last some samples count from end to end (`runs`), and samples elsewhere
//! show how much of the time between two runs was spent elsewhere.
//! What not: which samples are a pair (`pairs`).

use base::Nanos;

use super::pairs::{Found, LONG, Pair, Restart};
use super::runs::Runs;
use estimate::interval::Z_95;
use estimate::student::quantile_95;

/// Fewer pairs are none: ten batches need one each.
const LEAST_PAIRS: usize = 10;

/// So many batches: enough for their scatter to be known, few enough for each to be longer than what neighbours share.
const MOST_BATCHES: usize = 20;

/// How late a timer's interrupt may be, seconds: 1 to 5 us were measured (`docs/decisions`); as a standard deviation.
const LATE: f64 = 2.5e-6;

/// Where runs of a loop cannot be distinguished, and more than this share of pairs goes backwards, an advance may hide one.
const MOST_BACKWARDS: f64 = 0.35;

/// This share of the pairs that begin far from the end may go backwards nevertheless.
const STRAY: f64 = 0.02;

/// Samples that follow one another in different runs, for each pair in one: of more, the pairs are no fair choice of runs. A run as
/// long as the time between two samples gives a pair only where it is slow. Of 17 drawn programs with a loop of more than five,
/// four had 0.6 to 0.8 times their true loads (AMD Zen 5).
const MOST_OTHERS: f64 = 2.0;

/// Of a thread for which more than this part of the time between samples is not its own, that time is a mean.
const INTERRUPTED: f64 = 0.05;

/// Why a loop without any pair has no pace.
pub(super) const NOT_READ: &str = "no register moves by the same amount in every iteration";

/// Why one whose time is not known has none.
pub(super) const SCATTER: &str =
    "the advances between samples scatter so much that further runs may be hidden";

/// A half-width of more than this share of the pace says nothing: the figure is absent instead.
pub(super) const TOO_WIDE: f64 = 0.5;

/// A loop's pace.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Pace {
    /// Iterations per second of CPU time.
    pub rate: f64,
    /// Half of its 95 % interval.
    pub half: f64,
    /// Pairs used.
    pub pairs: usize,
    /// CPU time in them, seconds: there the iterations are counted.
    pub seconds: f64,
    /// Iterations by the loop's samples, and half of their interval as a part of it, where the time of its threads is known
    /// worse than their iterations.
    pub counted: Option<(f64, f64)>,
}

impl Pace {
    /// Whether the time between samples is known well enough for a rate.
    pub(super) fn is_rate(&self) -> bool {
        self.half <= TOO_WIDE * self.rate
    }
}

/// The pace of a loop that had so much CPU time, in seconds; or why there is none.
pub(super) fn pace(found: &Found, cpu_time: f64) -> Result<Pace, &'static str> {
    if found.waits * 2 > found.samples {
        return Err(
            "its thread waits more often than samples come, and each wait ends a run of it",
        );
    }
    let Used { pairs, restarts, outside, unsure } = usable(found, cpu_time)?;
    if pairs.len() < LEAST_PAIRS {
        return Err(match (found.pairs.len() + found.restarts.len(), found.other_runs) {
            (0, 0) => NOT_READ,
            (few, others) if others as usize > few => {
                "its runs are shorter than the time between two samples"
            }
            _ => "too few samples lie in the same run of it",
        });
    }
    let others = found.restarts.len().saturating_sub(restarts);
    if others as f64 > MOST_OTHERS * pairs.len() as f64 {
        return Err("most of its runs are shorter than the time between two samples");
    }
    let iterations: f64 = pairs.iter().map(|pair| pair.iterations).sum();
    let seconds: f64 = pairs.iter().map(|pair| pair.seconds).sum();
    if iterations <= 0.0 || seconds <= 0.0 {
        return Err("no iteration of it ended between two samples");
    }
    let rate = iterations / seconds;
    let residue = |pair: &Pair| pair.iterations - rate * pair.seconds;
    let (variance, freedom) = batched(&pairs.iter().map(residue).collect::<Vec<f64>>());
    // Of a thread that was interrupted, the time in pairs is not known exactly.
    let is_exact = found.interrupted as f64 <= INTERRUPTED * pairs.len() as f64;
    let seen = if is_exact { seconds / cpu_time.max(seconds) } else { 0.0 };
    let unseen = 1.0 - seen;
    let batch_half = quantile_95(freedom) * (variance * unseen).sqrt() / seconds;
    let chains = pairs.iter().filter(|pair| !pair.linked).count().saturating_sub(restarts);
    let late_half = Z_95 * LATE * (2.0 * chains.max(1) as f64).sqrt() * rate / seconds;
    let outside_half = Z_95 * outside * rate / seconds;
    let half = batch_half.hypot(late_half).hypot(outside_half).hypot(Z_95 * unsure / seconds);
    let counted = if is_exact { None } else { counted(found, &pairs, restarts) };
    let pace = Pace { rate, half, pairs: pairs.len(), seconds, counted };
    if !pace.is_rate() && counted.is_none() {
        return Err(SCATTER);
    }
    Ok(pace)
}

/// The variance of a sum of residues in order of time, from its batches, and its degrees of freedom.
fn batched(residues: &[f64]) -> (f64, f64) {
    let size = residues.len().div_ceil(residues.len().min(MOST_BATCHES));
    let batches: Vec<f64> = residues.chunks(size).map(|batch| batch.iter().sum()).collect();
    let count = batches.len() as f64;
    let squares: f64 = batches.iter().map(|batch| batch * batch).sum();
    (squares * count / (count - 1.0).max(1.0), count - 1.0)
}

/// Iterations of a loop in all, by those from one of its samples to the next. Time has no part in this: of a thread that others
/// interrupt, it is a mean, but its registers tell all iterations in between. With half of the interval, as a part of it.
fn counted(found: &Found, pairs: &[Pair], restarts: usize) -> Option<(f64, f64)> {
    if restarts > 0 {
        return None;
    }
    let between = pairs.iter().map(|pair| pair.iterations);
    let between: Vec<f64> =
        between.chain(found.around_bursts.iter().map(|(iterations, _)| *iterations)).collect();
    let (n, samples) = (between.len() as f64, found.samples as f64);
    let mean = between.iter().sum::<f64>() / n;
    let residues: Vec<f64> = between.iter().map(|iterations| iterations - mean).collect();
    let (variance, freedom) = batched(&residues);
    let unseen = (1.0 - n / samples).max(1.0 / samples);
    let half = quantile_95(freedom) * (variance * unseen).sqrt() / (n * mean);
    (half <= TOO_WIDE).then_some((mean * samples, half))
}

/// What counts.
struct Used {
    /// In order of time, around restarts too.
    pairs: Vec<Pair>,
    /// How many of them are around restarts.
    restarts: usize,
    /// Standard error of the time spent elsewhere in them, seconds.
    outside: f64,
    /// Standard error of their iterations.
    unsure: f64,
}

/// The pairs that hide no other run, and those around restarts of runs whose length is known.
fn usable(found: &Found, cpu_time: f64) -> Result<Used, &'static str> {
    let fastest = found.pairs.iter().map(|pair| pair.iterations / pair.seconds).fold(0.0, f64::max);
    let longest = found.pairs.iter().map(|pair| pair.seconds).fold(0.0, f64::max);
    let period = cpu_time / found.samples.max(1) as f64;
    let runs = Runs::new(found);
    let is_even = |group: usize| runs.is_even(group);
    let (through, ends): (Vec<&Restart>, Vec<&Restart>) =
        found.restarts.iter().partition(|one| is_even(one.pair.group) && is_even(one.to.0));
    let backwards: Vec<(usize, f64)> = ends
        .iter()
        .filter(|one| one.outside.1 == 0 && one.to.0 == one.pair.group)
        .map(|one| (one.pair.group, one.pair.from))
        .collect();
    let uneven = found.pairs.iter().filter(|pair| !is_even(pair.group)).copied().collect();
    let mut pairs = one_run(uneven, &backwards, found, fastest, longest)?;
    // Their duration decides which pairs count, not their advance: that would select for a pace.
    let short = |pair: &&Pair| pair.seconds <= LONG * period;
    pairs.extend(found.pairs.iter().filter(|pair| is_even(pair.group)).filter(short));
    let (mut outside, mut restarts) = (0, 0);
    let through: Vec<&Restart> = through.into_iter().filter(|one| one.whole).collect();
    for one in &through {
        let Some(iterations) = runs.across(one) else { continue };
        let seconds = one.pair.seconds - one.outside.0;
        pairs.push(Pair { iterations, seconds, ..one.pair });
        outside += one.outside.1;
        restarts += 1;
    }
    let unsure = runs.error(through.into_iter());
    pairs.sort_by_key(|pair| pair.time);
    // Samples elsewhere come as they like: their number scatters by its root; and one that was missed may have come.
    let outside = if restarts > 0 { (outside as f64 + 1.0).sqrt() * period } else { 0.0 };
    Ok(Used { pairs, restarts, outside, unsure })
}

/// Pairs that hide no other run. Where the registers do not tell runs apart, those that begin so near to the furthest
/// place seen that the run may have ended meanwhile are left out, however they ended: which pairs count must not depend on
/// how far they came.
fn one_run(
    pairs: Vec<Pair>,
    backwards: &[(usize, f64)],
    found: &Found,
    fastest: f64,
    longest: f64,
) -> Result<Vec<Pair>, &'static str> {
    if backwards.is_empty() {
        return Ok(pairs);
    }
    let all = pairs.len() + backwards.len();
    if backwards.len() as f64 > MOST_BACKWARDS * all as f64 {
        return Err(
            "its runs are shorter than the time between two samples and cannot be distinguished",
        );
    }
    let far = |group: usize, from: f64, seconds: f64| {
        let furthest = found.reach.get(&group).map_or(from, |reach| reach.furthest);
        from + fastest * seconds <= furthest
    };
    let kept: Vec<Pair> =
        pairs.into_iter().filter(|pair| far(pair.group, pair.from, pair.seconds)).collect();
    let stray = backwards.iter().filter(|(group, from)| far(*group, *from, longest)).count();
    if stray as f64 > STRAY * (kept.len() + stray) as f64 {
        return Err(
            "its runs are shorter than the time between two samples and cannot be distinguished",
        );
    }
    Ok(kept)
}

/// CPU time as seconds.
pub(super) fn seconds(time: Nanos) -> f64 {
    time.0 as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::super::pairs::Reach;
    use super::*;

    fn pair(number: u64, iterations: f64, from: f64) -> Pair {
        let linked = number > 0;
        Pair { time: Nanos(number), iterations, seconds: 1e-3, from, group: 0, linked }
    }

    fn restart(number: u64, from: f64, to: f64) -> Restart {
        let pair = Pair { linked: true, ..pair(number, 0.0, from) };
        Restart { pair, to: (0, to), outside: (0.0, 0), whole: true }
    }

    #[test]
    fn an_even_pace_is_exact_and_an_uneven_one_has_an_interval() {
        let even: Vec<Pair> = (0..200).map(|number| pair(number, 1000.0, 0.0)).collect();
        let found = Found { pairs: even, ..Found::default() };
        let exact = pace(&found, 1.0).unwrap();
        assert!((exact.rate - 1e6).abs() < 1e-3 && exact.half / exact.rate < 1e-4, "{exact:?}");
        // Half of the time at double speed; a fifth of the loop's time was seen.
        let uneven: Vec<Pair> = (0..200)
            .map(|number| pair(number, if number % 40 < 20 { 1000.0 } else { 2000.0 }, 0.0))
            .collect();
        let found = Found { pairs: uneven, ..Found::default() };
        let wide = pace(&found, 1.0).unwrap();
        assert!((wide.rate - 1.5e6).abs() < 1.0 && wide.half > 5e4, "{wide:?}");
        assert!(pace(&found, 0.2).unwrap().half < wide.half / 10.0);
    }

    #[test]
    fn runs_that_nothing_tells_apart_count_up_to_where_they_may_end() {
        // A run has 10,000 iterations, a pair 1000 to 1500 of them; what begins behind 8500 may hide the next run.
        let reach = Reach { nearest: 0.0, furthest: 10_000.0 };
        let mut found = Found { reach: [(0, reach)].into(), samples: 300, ..Found::default() };
        for number in 0..300 {
            let from = (number * 337 % 10_000) as f64;
            let went = if number % 2 == 0 { 1000.0 } else { 1500.0 };
            if from + went < 10_000.0 {
                found.pairs.push(pair(number, went, from));
            } else {
                found.restarts.push(restart(number, from, from + went - 10_000.0));
            }
        }
        let pace = pace(&found, 0.3).unwrap();
        assert!((pace.rate / 1.25e6 - 1.0).abs() < 0.02, "{pace:?}");
        // Where as many go back as forth, the direction is unknown.
        found
            .restarts
            .extend((0..300).map(|number| restart(number, number as f64, number as f64 - 1.0)));
        assert!(super::pace(&found, 0.3).is_err());
    }

    /// Of three runs, each with other bounds, one is so slow that it has two samples. Its pace is not that of the others.
    #[test]
    fn pairs_of_slow_runs_alone_are_no_pace() {
        let with = |others: u64| {
            let pairs = (0..100).map(|number| pair(number, 1000.0, 0.0)).collect();
            let other = |number| Restart { to: (1, 500.0), ..restart(number, 0.0, 500.0) };
            let restarts = (0..others).map(other).collect();
            pace(&Found { pairs, restarts, ..Found::default() }, 1.0)
        };
        assert!(with(200).is_ok());
        assert!(with(201).is_err_and(|why| why.starts_with("most of its runs are shorter")));
    }

    #[test]
    fn too_few_pairs_are_none() {
        assert!(pace(&Found::default(), 1.0).is_err());
        let few = Found { pairs: vec![pair(0, 1.0, 0.0); 9], ..Found::default() };
        assert!(pace(&few, 1.0).is_err());
    }
}
