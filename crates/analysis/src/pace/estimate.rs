//! From pairs of samples to a pace with its interval.
//!
//! The pace is the sum of iterations over the sum of CPU time. Its interval comes from batches of pairs in order of time (batch
//! means: Law, Simulation Modeling and Analysis, 9.5.3), because the machine's speed changes slowly and neighbours resemble each
//! other. The part of the loop's time that lies in pairs is known exactly, so only the rest is uncertain (finite population
//! correction: Cochran, Sampling Techniques, 2.6).
//! A slow run has more pairs than a fast one: between samples, a run of `n` iterations ends `i / (n - i)` times for each pair of `i`
//! iterations, so such a pair stands for `n / (n - i)` of its kind (length-biased sampling: Cox, "Some sampling problems in
//! technology", 1969). All ends that were seen tell `n`. Where the pace differs within runs, not between them, this says too much:
//! so the pace lies between both ([`unlike_runs`]). Assumption: runs have about as many iterations.
//! What not: which samples are a pair (`pairs`).

use std::collections::BTreeMap;

use base::Nanos;

use super::pairs::{Found, Pair};
use estimate::parameters::{OTHER_RUNS, SAMPLE_OFF};
use estimate::student::quantile_95;

/// Fewer pairs are none: ten batches need one each.
const LEAST_PAIRS: usize = 10;

/// So many batches: enough for their scatter to be known, few enough for each to be longer than what neighbours share.
const MOST_BATCHES: usize = 20;

/// Where runs of a loop cannot be distinguished, and more than this share of pairs goes backwards, an advance may hide one.
const MOST_BACKWARDS: f64 = 0.35;

/// This share of the pairs that begin far from the end may go backwards nevertheless.
const STRAY: f64 = 0.02;

/// An iteration that takes so many times as long as passes between two samples has its ends seen to a small part of it.
const LENGTHY: f64 = 4.0;

/// Of a thread for which more than this part of the time between samples is not its own, that time is a mean.
const INTERRUPTED: f64 = 0.05;

/// Why a loop without any pair has no pace.
pub(super) const NOT_READ: &str = "no register moves by the same amount in every iteration";

/// Why one whose time is not known has none.
pub(super) const SCATTER: &str =
    "the advances between samples scatter so much that further runs may be hidden";

/// Fewer close pairs have no slope.
const LEAST_CLOSE: usize = 20;

/// Why one whose runs the registers do not tell apart has none.
const LOOK_ALIKE: &str =
    "its runs are shorter than the time between two samples and cannot be distinguished";

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
    /// Found with echoes.
    pub by_echoes: bool,
}

impl Pace {
    /// Whether the time between samples is known well enough for a rate.
    pub(super) fn is_rate(&self) -> bool {
        self.half <= TOO_WIDE * self.rate
    }
}

/// The pace of a loop that had so much CPU time, in seconds; or why there is none. Echoes tell it where its runs are too short for
/// pairs of samples. `sample`: what taking one takes, seconds.
pub(super) fn pace(
    found: &Found,
    cpu_time: f64,
    sample: Option<f64>,
) -> Result<Pace, &'static str> {
    let by_echoes = |why| {
        let close = found.close.as_deref();
        let near = || with_cost(close?.close.as_deref()?, sample?);
        let pace = close.and_then(slope).or_else(near);
        let seconds = |pace: Pace| Pace { seconds: pace.seconds.min(cpu_time), ..pace };
        pace.map(seconds).ok_or(why)
    };
    by_samples(found, cpu_time).or_else(by_echoes)
}

/// Pairs of samples and echoes in one run, if these are a fair choice.
fn close_pairs(found: &Found) -> Option<Vec<Pair>> {
    let pairs = one_run(found).ok()?;
    let is_fair = found.restarts as f64 <= OTHER_RUNS.value * pairs.len() as f64;
    (is_fair && pairs.len() >= LEAST_CLOSE).then_some(pairs)
}

/// The pace by the slope of iterations over the time between a sample and its echo (least squares): a sample itself takes time, the same each
/// time.
fn slope(found: &Found) -> Option<Pace> {
    let pairs = close_pairs(found)?;
    let n = pairs.len() as f64;
    let sum = |of: &dyn Fn(&Pair) -> f64| pairs.iter().map(of).sum::<f64>();
    let [seconds, iterations] = [sum(&|pair| pair.seconds) / n, sum(&|pair| pair.iterations) / n];
    let spread = sum(&|pair| (pair.seconds - seconds).powi(2));
    let rate = sum(&|pair| (pair.seconds - seconds) * (pair.iterations - iterations)) / spread;
    let residue = |pair: &Pair| pair.iterations - iterations - rate * (pair.seconds - seconds);
    let variance = sum(&|pair| residue(pair).powi(2)) / (n - 2.0);
    echoed(rate, quantile_95(n - 2.0) * (variance / spread).sqrt(), &pairs)
}

/// The pace where only near echoes are in the same run as their samples: what a sample takes is known by calibration.
fn with_cost(found: &Found, sample: f64) -> Option<Pace> {
    let pairs = close_pairs(found)?;
    let n = pairs.len() as f64;
    let own = |pair: &Pair| pair.seconds - sample;
    let seconds: f64 = pairs.iter().map(own).sum();
    let rate = pairs.iter().map(|pair| pair.iterations).sum::<f64>() / seconds;
    let residue = |pair: &Pair| (pair.iterations - rate * own(pair)).powi(2);
    let variance = pairs.iter().map(residue).sum::<f64>() / (n - 1.0);
    let chance = quantile_95(n - 1.0) * (n * variance).sqrt() / seconds;
    echoed(rate, chance.hypot(rate * SAMPLE_OFF.value * n * sample / seconds), &pairs)
}

fn echoed(rate: f64, half: f64, pairs: &[Pair]) -> Option<Pace> {
    let seconds = pairs.iter().map(|pair| pair.seconds).sum();
    let pace = Pace { rate, half, pairs: pairs.len(), seconds, counted: None, by_echoes: true };
    (rate > 0.0 && rate.is_finite() && pace.is_rate()).then_some(pace)
}

fn by_samples(found: &Found, cpu_time: f64) -> Result<Pace, &'static str> {
    if found.waits * 2 > found.samples {
        return Err(
            "its thread waits more often than samples come, and each wait ends a run of it",
        );
    }
    let pairs = one_run(found)?;
    let pairs = match whole_iterations(&pairs) {
        Some(whole) if whole.len() < LEAST_PAIRS && pairs.len() >= LEAST_PAIRS => {
            return Err("no two of its iterations ended in one run between samples");
        }
        Some(whole) => whole,
        None => pairs,
    };
    if pairs.len() < LEAST_PAIRS {
        return Err(match (found.pairs.len() + found.restarts, found.other_runs) {
            (0, 0) => NOT_READ,
            (few, others) if others as usize > few => {
                "its runs are shorter than the time between two samples"
            }
            _ => "too few samples lie in the same run of it",
        });
    }
    if found.restarts as f64 > OTHER_RUNS.value * pairs.len() as f64 {
        return Err("most of its runs are shorter than the time between two samples");
    }
    let iterations: f64 = pairs.iter().map(|pair| pair.iterations).sum();
    let seconds: f64 = pairs.iter().map(|pair| pair.seconds).sum();
    if iterations <= 0.0 || seconds <= 0.0 {
        return Err("no iteration of it ended between two samples");
    }
    let rate = iterations / seconds;
    let open = unlike_runs(found, &pairs) / 2.0;
    let residue = |pair: &Pair| pair.iterations - rate * pair.seconds;
    let (variance, freedom) = batched(&pairs.iter().map(residue).collect::<Vec<f64>>());
    // Of a thread that was interrupted, the time in pairs is not known exactly.
    let is_exact = found.interrupted as f64 <= INTERRUPTED * pairs.len() as f64;
    let seen = if is_exact { seconds / cpu_time.max(seconds) } else { 0.0 };
    let unseen = 1.0 - seen;
    let half = quantile_95(freedom) * (variance * unseen).sqrt() / seconds;
    let counted = if is_exact { None } else { counted(found, &pairs, open, cpu_time) };
    let (half, rate) = (half.hypot(rate * open), rate * (1.0 + open));
    let pace = Pace { rate, half, pairs: pairs.len(), seconds, counted, by_echoes: false };
    if !pace.is_rate() && counted.is_none() {
        return Err(SCATTER);
    }
    Ok(pace)
}

/// Where iterations are [`LENGTHY`]: of each run the pairs from the first end of an iteration to the last.
/// A run of 13 iterations that is sampled from its start to its end has the ends of 12 in the time of 13.
fn whole_iterations(pairs: &[Pair]) -> Option<Vec<Pair>> {
    let iterations: f64 = pairs.iter().map(|pair| pair.iterations).sum();
    if iterations * LENGTHY >= pairs.len() as f64 {
        return None;
    }
    let mut runs: BTreeMap<usize, Vec<Pair>> = BTreeMap::new();
    pairs.iter().for_each(|pair| runs.entry(pair.group).or_default().push(*pair));
    let whole = runs.into_values().flat_map(|run| {
        let ends = |pair: &Pair| pair.iterations > 0.0;
        let first = run.iter().position(ends).map_or(run.len(), |first| first + 1);
        let behind = run.iter().rposition(ends).map_or(first, |last| last + 1);
        run.get(first..behind).map(<[Pair]>::to_vec).unwrap_or_default()
    });
    let mut whole: Vec<Pair> = whole.collect();
    whole.sort_by_key(|pair| pair.time);
    Some(whole)
}

/// By which part of it the pace may be too low, because slow runs have more pairs than fast ones.
fn unlike_runs(found: &Found, pairs: &[Pair]) -> f64 {
    let ends = |run: f64| -> f64 {
        pairs.iter().map(|pair| pair.iterations / (run - pair.iterations)).sum()
    };
    let seen = found.restarts as f64;
    let mut short = pairs.iter().map(|pair| pair.iterations).fold(0.0, f64::max);
    // Of longer runs so few ends are nothing.
    let mut long = short * (2.0 + pairs.len() as f64);
    if ends(long) > seen {
        return 0.0;
    }
    for _ in 0..40 {
        let run = f64::midpoint(short, long);
        if ends(run) > seen { short = run } else { long = run }
    }
    let rate = |weight: &dyn Fn(&Pair) -> f64| {
        let sum = |of: fn(&Pair) -> f64| pairs.iter().map(|pair| weight(pair) * of(pair)).sum();
        let [iterations, seconds]: [f64; 2] =
            [sum(|pair| pair.iterations), sum(|pair| pair.seconds)];
        iterations / seconds
    };
    let weighted = rate(&|pair| long / (long - pair.iterations));
    (weighted / rate(&|_| 1.0) - 1.0).max(0.0)
}

/// The variance of a sum of residues in order of time, from its batches, and its degrees of freedom.
fn batched(residues: &[f64]) -> (f64, f64) {
    let size = residues.len().div_ceil(residues.len().min(MOST_BATCHES));
    let batches: Vec<f64> = residues.chunks(size).map(|batch| batch.iter().sum()).collect();
    let count = batches.len() as f64;
    let squares: f64 = batches.iter().map(|batch| batch * batch).sum();
    (squares * count / (count - 1.0).max(1.0), count - 1.0)
}

/// Iterations of a loop in all, by those from one of its samples to the next, for all of its CPU time. The time
/// in a pair has no part in the interval: of a thread that others interrupt, it is a mean, but its registers tell all iterations in
/// between. With half of the interval, as a part of it. `open`: half of what slow runs may make of it.
fn counted(found: &Found, pairs: &[Pair], open: f64, cpu_time: f64) -> Option<(f64, f64)> {
    let between = pairs.iter().map(|pair| (pair.iterations, pair.seconds));
    let between: Vec<(f64, f64)> = between.chain(found.around_bursts.iter().copied()).collect();
    let (iterations, seen) =
        between.iter().fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    let rate = iterations / seen;
    let residues: Vec<f64> = between.iter().map(|(went, took)| went - rate * took).collect();
    let (variance, freedom) = batched(&residues);
    let all = cpu_time.max(seen);
    let unseen = (1.0 - seen / all).max(1.0 / found.samples as f64);
    let half = (quantile_95(freedom) * (variance * unseen).sqrt() / iterations).hypot(open);
    (half <= TOO_WIDE).then_some((rate * all * (1.0 + open), half))
}

/// Pairs that hide no other run, in order of time. Where the registers do not tell runs apart, those that begin so near to the
/// furthest place seen that the run may have ended meanwhile are left out, however they ended: which pairs count must not depend
/// on how far they came.
fn one_run(found: &Found) -> Result<Vec<Pair>, &'static str> {
    let Found { pairs, backwards, .. } = found;
    let mut kept = pairs.clone();
    kept.sort_by_key(|pair| pair.time);
    if backwards.is_empty() {
        return Ok(kept);
    }
    if backwards.len() as f64 > MOST_BACKWARDS * (pairs.len() + backwards.len()) as f64 {
        return Err(LOOK_ALIKE);
    }
    let fastest = pairs.iter().map(|pair| pair.iterations / pair.seconds).fold(0.0, f64::max);
    let longest = pairs.iter().map(|pair| pair.seconds).fold(0.0, f64::max);
    let far = |group: usize, from: f64, seconds: f64| {
        let furthest = found.furthest.get(&group).copied().unwrap_or(from);
        from + fastest * seconds <= furthest
    };
    kept.retain(|pair| far(pair.group, pair.from, pair.seconds));
    let stray = backwards.iter().filter(|(group, from)| far(*group, *from, longest)).count();
    if stray as f64 > STRAY * (kept.len() + stray) as f64 {
        return Err(LOOK_ALIKE);
    }
    Ok(kept)
}

/// CPU time as seconds.
pub(super) fn seconds(time: Nanos) -> f64 {
    time.0 as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(number: u64, iterations: f64, from: f64) -> Pair {
        Pair { time: Nanos(number), iterations, seconds: 1e-3, from, group: 0 }
    }

    #[test]
    fn an_even_pace_is_exact_and_an_uneven_one_has_an_interval() {
        let even: Vec<Pair> = (0..200).map(|number| pair(number, 1000.0, 0.0)).collect();
        let found = Found { pairs: even, ..Found::default() };
        let exact = pace(&found, 1.0, None).unwrap();
        assert!((exact.rate - 1e6).abs() < 1e-3 && exact.half / exact.rate < 1e-4, "{exact:?}");
        // Half of the time at double speed; a fifth of the loop's time was seen.
        let uneven: Vec<Pair> = (0..200)
            .map(|number| pair(number, if number % 40 < 20 { 1000.0 } else { 2000.0 }, 0.0))
            .collect();
        let found = Found { pairs: uneven, ..Found::default() };
        let wide = pace(&found, 1.0, None).unwrap();
        assert!((wide.rate - 1.5e6).abs() < 1.0 && wide.half > 5e4, "{wide:?}");
        assert!(pace(&found, 0.2, None).unwrap().half < wide.half / 10.0);
    }

    /// Two runs of 13 iterations of 100 ms each: the registers change 12 times in each.
    #[test]
    fn the_last_iteration_of_a_run_counts_although_no_register_shows_its_end() {
        let pairs = (1..1300).chain(2001..3300).map(|number: u64| Pair {
            group: usize::from(number > 2000),
            ..pair(number, f64::from(u8::from(number.is_multiple_of(100))), 0.0)
        });
        let found = Found { pairs: pairs.collect(), ..Found::default() };
        let pace = pace(&found, 2.6, None).unwrap();
        assert!((pace.rate - 10.0).abs() < 1e-9, "{pace:?}");
        // Of runs with one end nothing tells how long an iteration takes.
        let few = found.pairs.iter().filter(|pair| pair.time.0 < 150).copied().collect();
        let few = Found { pairs: few, ..Found::default() };
        assert!(super::pace(&few, 0.15, None).is_err());
    }

    #[test]
    fn runs_that_nothing_tells_apart_count_up_to_where_they_may_end() {
        // A run has 10,000 iterations, a pair 1000 to 1500 of them; what begins behind 8500 may hide the next run.
        let furthest = [(0, 10_000.0)].into();
        let mut found = Found { furthest, samples: 300, ..Found::default() };
        for number in 0..300 {
            let from = (number * 337 % 10_000) as f64;
            let went = if number % 2 == 0 { 1000.0 } else { 1500.0 };
            if from + went < 10_000.0 {
                found.pairs.push(pair(number, went, from));
            } else {
                found.backwards.push((0, from));
            }
        }
        let pace = pace(&found, 0.3, None).unwrap();
        assert!((pace.rate / 1.25e6 - 1.0).abs() < 0.02, "{pace:?}");
        // Where as many go back as forth, the direction is unknown.
        found.backwards.extend((0..300).map(|number| (0, f64::from(number))));
        assert!(super::pace(&found, 0.3, None).is_err());
    }

    /// Of three runs, each with other bounds, one is so slow that it has two samples. Its pace is not that of the others.
    #[test]
    fn pairs_of_slow_runs_alone_are_no_pace() {
        let with = |restarts| {
            let pairs = (0..100).map(|number| pair(number, 1000.0, 0.0)).collect();
            pace(&Found { pairs, restarts, ..Found::default() }, 1.0, None)
        };
        assert!(with(200).is_ok());
        assert!(with(201).is_err_and(|why| why.starts_with("most of its runs are shorter")));
    }

    /// As many runs that last for 1.5 times the time between samples as such that last for 4 times.
    #[test]
    fn slow_runs_have_more_pairs() {
        let mut found = Found::default();
        let (mut truth, mut all) = (0.0, 0.0);
        for run in 0..2000 {
            let (length, begin) =
                (if run % 2 == 0 { 1.5 } else { 4.0 }, (run * 377 % 1000) as f64 / 1e3);
            let samples = (0..).map(|at| begin + f64::from(at)).filter(|at| *at < length + 5.0);
            let inside = samples.take_while(|at| *at < length).count();
            let went = 1000.0 / length;
            let time = Nanos(run as u64);
            let one = Pair { time, iterations: went, seconds: 1e-3, from: 0.0, group: 0 };
            found.pairs.extend(std::iter::repeat_n(one, inside.saturating_sub(1)));
            found.restarts += usize::from(inside > 0);
            truth += 1000.0;
            all += length * 1e-3;
        }
        let pairs = found.pairs.iter().map(|pair| pair.iterations).sum::<f64>();
        let naive = pairs / (found.pairs.len() as f64 * 1e-3);
        let pace = pace(&found, all, None).unwrap();
        let truth = truth / all;
        assert!(naive < 0.86 * truth, "{naive} {truth}");
        assert!((pace.rate - truth).abs() <= pace.half, "{pace:?} {truth}");
    }

    /// A run of a million iterations a second; a sample takes 16 us of the time between it and its echo.
    fn close(echoes: &[u64], beyond: usize) -> Found {
        let pair = |number: usize| {
            let seconds = 1e-6 * echoes[number % echoes.len()] as f64;
            let iterations = 1e6 * (seconds - 16e-6) + [-0.5, 0.5][number / 2 % 2];
            Pair { iterations, seconds, ..pair(number as u64, 0.0, 0.0) }
        };
        let pairs = (0..100).map(pair).collect();
        Found { pairs, restarts: beyond, ..Found::default() }
    }

    #[test]
    fn echoes_tell_the_pace_of_short_runs() {
        let with = |close: Found, sample| {
            pace(&Found { close: Some(Box::new(close)), ..Found::default() }, 1.0, sample)
        };
        let by_slope = with(close(&[50, 150], 0), None).unwrap();
        assert!(by_slope.by_echoes && (by_slope.rate - 1e6).abs() < by_slope.half, "{by_slope:?}");
        assert!(by_slope.half < 1e4, "{by_slope:?}");
        // The later echoes are in other runs: near ones need the cost of a sample, which is known to a quarter.
        let near = || {
            let near = Some(Box::new(close(&[50], 20)));
            Found { close: near, ..close(&[50, 150], 201) }
        };
        let by_cost = with(near(), Some(16e-6)).unwrap();
        let off = SAMPLE_OFF.value * 16.0 / 34.0;
        assert!((by_cost.rate / 1e6 - 1.0).abs() < 0.01, "{by_cost:?}");
        assert!((by_cost.half / by_cost.rate - off).abs() < 0.01, "{by_cost:?}");
        assert!(with(near(), None).is_err());
    }

    #[test]
    fn too_few_pairs_are_none() {
        assert!(pace(&Found::default(), 1.0, None).is_err());
        let few = Found { pairs: vec![pair(0, 1.0, 0.0); 9], ..Found::default() };
        assert!(pace(&few, 1.0, None).is_err());
    }
}
