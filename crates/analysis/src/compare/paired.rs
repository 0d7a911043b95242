//! Runs of both sides that were recorded alternately: each against its neighbour, so that common disturbances cancel.
//!
//! Why: neighbours on a shared machine, a hot processor, or files that leave the cache slow runs down for seconds to minutes.
//! Between runs of 1.7 s on a virtual machine with 2 CPUs that was the larger part: 10 runs against 10 resolved a change of
//! 5.5 %, in pairs of 2.9 % (`bench/results/diff.md`).
//! How: the logarithm of the quotient of a pair is one observation. Their mean, trimmed as in [`Side`], is judged by Student's t
//! (Tukey and McLaughlin, Sankhya A 25 (1963) 331-352). Only the times of recording and the number of runs decide whether runs
//! are paired, never whether that makes a change visible.
//! Assumption: disturbances act alike on both runs of a pair, in proportion to their time.

use super::{Comparison, Side};
use estimate::student::{quantile_95, two_sided_p};

/// From this many pairs on runs are compared in pairs. Pairs have half the degrees of freedom: with four and no common
/// disturbance the interval would be wider by a third, with five by a fifth.
pub const PAIRS_FROM: usize = 5;

/// Which run of the base belongs to which new one, by when they began; `None` unless they are equally many, at least
/// [`PAIRS_FROM`], and the n-th of both began before either of the following ones.
#[must_use]
pub fn pairs_in_turn<T: Ord + Copy>(base: &[T], new: &[T]) -> Option<Vec<(usize, usize)>> {
    if base.len() != new.len() || base.len() < PAIRS_FROM {
        return None;
    }
    let in_order = |side: &[T]| {
        let mut order: Vec<usize> = (0..side.len()).collect();
        order.sort_by_key(|run| side[*run]);
        order
    };
    let pairs: Vec<(usize, usize)> = in_order(base).into_iter().zip(in_order(new)).collect();
    let ends = |&(b, n): &(usize, usize)| (base[b].min(new[n]), base[b].max(new[n]));
    let in_turn = pairs.windows(2).all(|two| ends(&two[0]).1 < ends(&two[1]).0);
    in_turn.then_some(pairs)
}

/// Compares runs of which the n-th of both sides belong together, and says how much runs vary apart from what a pair has in
/// common, as a standard deviation in shares of the mean. `None` when values are missing or not above 0: then they have no
/// quotient. `quantum` as in [`Side::of`].
#[must_use]
pub fn paired(base: &[f64], new: &[f64], quantum: f64) -> Option<(Comparison, f64)> {
    let fits = |value: &f64| value.is_finite() && *value > 0.0;
    if base.len() != new.len() || base.len() < 2 || !base.iter().chain(new).all(fits) {
        return None;
    }
    let logarithms: Vec<f64> = base.iter().zip(new).map(|(base, new)| (new / base).ln()).collect();
    let mean = Side::of(base, quantum)?.mean;
    // Both of a pair are off by a quantum.
    let side = Side::of(&logarithms, quantum / mean * std::f64::consts::SQRT_2)?;
    let error = side.variance.sqrt();
    let half = if error > 0.0 { quantile_95(side.freedom) * error } else { 0.0 };
    let p = match error > 0.0 {
        true => two_sided_p(side.mean / error, side.freedom),
        false => f64::from(u8::from(side.mean == 0.0)),
    };
    let (low, high) = ((side.mean - half).exp(), (side.mean + half).exp());
    let difference = |ratio: f64| mean * (ratio - 1.0);
    let comparison = Comparison {
        difference: difference(side.mean.exp()),
        difference_interval: Some((difference(low), difference(high))),
        ratio: Some(side.mean.exp()),
        ratio_interval: Some((low, high)),
        p: Some(p),
    };
    Some((comparison, side.spread / std::f64::consts::SQRT_2))
}
