//! Ratios of sums over the same observations: how far each is off in each replicate.
//!
//! What for: an observation tells of several ratios (a window of a thread: seconds per instruction in several regions of code). So
//! ratios are off together, as far as the same observations tell them. A ratio that few observations tell borrows the variance
//! of the others. What not: what is off in all observations alike ([`crate::Bounds`]).
//!
//! ```text
//! ratio = sum of y / sum of x over its n observations         residual  e_i = y_i / sum of y - x_i / sum of x
//! in a replicate it is off by      sum of e_i z_i sqrt(n / (n - 1))
//! from [`FEWEST_IN_ORDER`] on by   sum of e_i (z_i - z_(i-1)) sqrt(n / (n - 1) / 2)
//! ```
//! z: a normal number of each observation, in all ratios the same. That is a linearised ratio (Cochran 1977, 6.4); observations in the
//! order of time are a systematic sample (Wolter 2007, 8.2.1, estimator v2). To its own variance comes that of all ratios,
//! as if from [`ONE_VARIANCE`] further observations, and the tails are Student's with as many degrees of freedom more (G. K. Smyth, "Linear
//! models and empirical Bayes methods for assessing differential expression in microarray experiments", Stat. Appl. Genet.
//! Mol. Biol. 3 (2004) 3: moderated t).

use std::collections::{BTreeMap, HashMap};

use crate::draws::Draws;
use crate::estimate::REPLICATES;
use crate::interval::ratio_and_half;
use crate::parameters::ONE_VARIANCE;
use crate::student::quantile_95;

/// With fewer observations, their order in time tells the scatter worse than their variance does.
pub const FEWEST_IN_ORDER: usize = 6;

/// What one observation tells of a ratio.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Term {
    /// Which one, by its place in the order of time.
    pub observation: usize,
    /// Its part of the upper sum.
    pub upper: f64,
    /// Its part of the lower sum.
    pub lower: f64,
}

/// Degrees of freedom of the variance of so many observations, in the order of time from [`FEWEST_IN_ORDER`] on (J. von Neumann et
/// al., "The mean square successive difference", Ann. Math. Stat. 12 (1941) 153-162).
#[must_use]
pub fn freedom(observations: usize) -> f64 {
    let n = observations as f64;
    match observations {
        0..FEWEST_IN_ORDER => n - 1.0,
        _ => 2.0 * (n - 1.0).powi(2) / (3.0 * n - 4.0),
    }
}

/// A ratio by itself.
struct Own {
    residuals: Vec<f64>,
    /// Parts of the upper sum, and the sum of their squares: one over the number of observations, where all tell alike.
    parts: Vec<f64>,
    squares: f64,
    variance: f64,
    freedom: f64,
    /// Freedom, as far as its observations tell of nothing else.
    weight: f64,
}

/// By which part each ratio is off in each replicate, in their order. `None`: one observation, and no others that tell how far one is off.
#[must_use]
pub fn off(ratios: &[Vec<Term>], seed: u64) -> Vec<Option<Vec<f64>>> {
    let mut upper: HashMap<usize, f64> = HashMap::new();
    for term in ratios.iter().flatten() {
        *upper.entry(term.observation).or_default() += term.upper;
    }
    let own: Vec<Own> = ratios.iter().map(|terms| Own::of(terms, &upper)).collect();
    let weight: f64 = own.iter().map(|one| one.weight).sum();
    let each = |one: &Own| one.weight * one.variance / one.squares;
    let usual = own.iter().filter(|one| one.weight > 0.0).map(each).sum::<f64>() / weight;
    let further = if weight > 0.0 { ONE_VARIANCE.value.min(weight) } else { 0.0 };
    let mut lots = Lots { draws: Draws::new(seed), normal: HashMap::new(), tails: HashMap::new() };
    let off = |(terms, one): (&Vec<Term>, &Own)| {
        let freedom = one.freedom + further;
        (freedom >= 1.0).then(|| lots.off(terms, one, (usual, further / freedom), freedom))
    };
    ratios.iter().zip(&own).map(off).collect()
}

/// A ratio.
#[derive(Clone, PartialEq, Debug)]
pub struct Ratio {
    /// The best value.
    pub best: f64,
    /// By which part it is off in each replicate.
    pub off: Vec<f64>,
}

impl Ratio {
    /// In a replicate; `None`: the best value. No less than nothing.
    #[must_use]
    pub fn at(&self, replicate: Option<usize>) -> f64 {
        let off = replicate.and_then(|at| self.off.get(at)).copied().unwrap_or(0.0);
        self.best * (1.0 + off).max(0.0)
    }
}

/// The ratio of each group. One whose terms are not enough by themselves is a further observation of all groups together;
/// where these are not enough either, it has none. `is_enough` has the group, or `None` for all.
#[must_use]
pub fn by_group<K: Ord + Copy>(
    groups: &BTreeMap<K, Vec<Term>>,
    is_enough: impl Fn(Option<K>, &[Term]) -> bool,
    seed: u64,
) -> BTreeMap<K, Ratio> {
    let best = |terms: &[Term]| {
        let sum = |of: fn(&Term) -> f64| terms.iter().map(of).sum::<f64>();
        sum(|term| term.upper) / sum(|term| term.lower)
    };
    let terms: Vec<Vec<Term>> = groups.values().cloned().collect();
    let own = groups.iter().zip(off(&terms, seed)).filter_map(|((group, terms), off)| {
        let off = off.filter(|_| is_enough(Some(*group), terms))?;
        Some((*group, Ratio { best: best(terms), off }))
    });
    let mut found: BTreeMap<K, Ratio> = own.collect();
    let all: Vec<Term> = terms.into_iter().flatten().collect();
    let pairs: Vec<(f64, f64)> = all.iter().map(|term| (term.upper, term.lower)).collect();
    let further = ratio_and_half(&pairs, 1.0).filter(|_| is_enough(None, &all));
    let Some((best, Some(half))) = further else { return found };
    let freedom = pairs.len() as f64 - 1.0;
    let deviation = half / quantile_95(freedom) / best.max(f64::MIN_POSITIVE);
    let mut draws = Draws::new(seed | 1 << 63);
    for group in groups.keys() {
        found.entry(*group).or_insert_with(|| {
            let numbers = draws.normal().into_iter().zip(draws.tails(freedom));
            Ratio { best, off: numbers.map(|(z, tail)| deviation * z * tail).collect() }
        });
    }
    found
}

impl Own {
    fn of(terms: &[Term], uppers: &HashMap<usize, f64>) -> Own {
        let sum = |of: fn(&Term) -> f64| terms.iter().map(of).sum::<f64>().max(f64::MIN_POSITIVE);
        let (upper, lower) = (sum(|term| term.upper), sum(|term| term.lower));
        let parts: Vec<f64> = terms.iter().map(|term| term.upper / upper).collect();
        let residual = |(term, part): (&Term, &f64)| part - term.lower / lower;
        let residuals: Vec<f64> = terms.iter().zip(&parts).map(residual).collect();
        let n = terms.len() as f64;
        let squares = match terms.len() {
            0 | 1 => 0.0,
            2..FEWEST_IN_ORDER => residuals.iter().map(|one| one.powi(2)).sum::<f64>(),
            _ => residuals.windows(2).map(|two| (two[1] - two[0]).powi(2)).sum::<f64>() / 2.0,
        };
        let alone = |term: &Term| term.upper / uppers[&term.observation].max(f64::MIN_POSITIVE);
        let alone = terms.iter().map(alone).sum::<f64>();
        let freedom = freedom(terms.len()).max(0.0);
        Own {
            variance: if terms.len() > 1 { squares * n / (n - 1.0) } else { 0.0 },
            squares: parts.iter().map(|part| part.powi(2)).sum(),
            weight: if upper > f64::MIN_POSITIVE { freedom * alone / n.max(1.0) } else { 0.0 },
            residuals,
            parts,
            freedom,
        }
    }
}

/// Random numbers: two of each observation, and tails of each number of degrees of freedom.
struct Lots {
    draws: Draws,
    normal: HashMap<usize, [Vec<f64>; 2]>,
    tails: HashMap<u64, Vec<f64>>,
}

impl Lots {
    /// `usual`: variance of one observation in all ratios, and what part of this one's is that.
    fn off(
        &mut self,
        terms: &[Term],
        own: &Own,
        (usual, part): (f64, f64),
        freedom: f64,
    ) -> Vec<f64> {
        let mut off = vec![0.0; REPLICATES];
        let n = terms.len() as f64;
        let in_order = terms.len() >= FEWEST_IN_ORDER;
        let steps = if in_order { 2.0 } else { 1.0 };
        let factor = if n > 1.0 { ((1.0 - part) * n / (n - 1.0) / steps).sqrt() } else { 0.0 };
        let borrowed = (part * usual).sqrt();
        for (at, term) in terms.iter().enumerate() {
            let Lots { draws, normal, .. } = self;
            let [first, second] =
                normal.entry(term.observation).or_insert_with(|| [draws.normal(), draws.normal()]);
            // The number of an observation stands in its own step and in that of the next.
            let next = own.residuals.get(at + 1).copied();
            let step = match in_order {
                true => next.map_or(0.0, |next| own.residuals[at] - next),
                false => own.residuals[at],
            };
            let numbers = first.iter().zip(second.iter());
            off.iter_mut().zip(numbers).for_each(|(sum, (z, other))| {
                *sum += factor * step * z + borrowed * own.parts[at] * other;
            });
        }
        let Lots { draws, tails, .. } = self;
        let whole = freedom.floor().max(1.0);
        let tails = tails.entry(whole as u64).or_insert_with(|| draws.tails(whole));
        off.iter_mut().zip(tails).for_each(|(off, tail)| *off *= *tail);
        off
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(all: &[(usize, f64, f64)]) -> Vec<Term> {
        all.iter()
            .map(|(observation, upper, lower)| Term {
                observation: *observation,
                upper: *upper,
                lower: *lower,
            })
            .collect()
    }

    fn deviation(off: &[f64]) -> f64 {
        (off.iter().map(|one| one.powi(2)).sum::<f64>() / off.len() as f64).sqrt()
    }

    /// Observations that differ by a tenth, of one instruction each.
    fn uneven(observations: std::ops::Range<usize>) -> Vec<Term> {
        let upper = |at: usize| if at.is_multiple_of(2) { 0.9 } else { 1.1 };
        terms(&observations.map(|at| (at, upper(at), 1.0)).collect::<Vec<_>>())
    }

    #[test]
    fn a_ratio_is_off_by_its_scatter() {
        let off = off(&[uneven(0..40)], 1);
        let found = deviation(off[0].as_ref().unwrap());
        // By turns too high and too low: neighbours differ by twice the deviation.
        let expected = 0.1 * (2.0f64 / 40.0).sqrt();
        assert!((found / expected - 1.0).abs() < 0.2, "{found} {expected}");
        // A program that does one thing first and another then: only one step in between.
        let two: Vec<Term> = terms(
            &(0..40).map(|at| (at, if at < 20 { 0.5 } else { 1.5 }, 1.0)).collect::<Vec<_>>(),
        );
        let found = deviation(super::off(&[two], 1)[0].as_ref().unwrap());
        assert!(found < 0.03, "{found}");
    }

    #[test]
    fn ratios_of_the_same_observations_are_off_together() {
        let same = off(&[uneven(0..10), uneven(0..10)], 1);
        assert_eq!(same[0], same[1]);
        let other = off(&[uneven(0..10), uneven(10..20)], 1);
        let [one, two] = [0, 1].map(|at: usize| other[at].as_ref().unwrap());
        let product: f64 = one.iter().zip(two).map(|(a, b)| a * b).sum::<f64>() / 256.0;
        let correlation = product / deviation(one) / deviation(two);
        assert!(correlation.abs() < 0.5, "{correlation}");
    }

    #[test]
    fn a_group_of_few_is_one_more_of_all() {
        let groups = BTreeMap::from([(1, uneven(0..20)), (2, uneven(20..21)), (3, Vec::new())]);
        let found = by_group(&groups, |_, terms| terms.len() > 2, 1);
        let spread = |group: i32| deviation(&found[&group].off);
        assert!((found[&1].at(None) - 1.0).abs() < 1e-9 && spread(1) < 0.05, "{}", spread(1));
        assert!([2, 3].iter().all(|group| (0.08..0.15).contains(&spread(*group))));
        assert_ne!(found[&2].off, found[&3].off);
        assert!(found[&2].at(Some(7)) >= 0.0);
        assert!(by_group(&groups, |_, terms| terms.len() > 90, 1).is_empty());
    }

    #[test]
    fn a_single_observation_borrows_the_scatter_of_others() {
        let single = terms(&[(40, 1.0, 1.0)]);
        assert_eq!(off(std::slice::from_ref(&single), 1), [None]);
        let found = off(&[uneven(0..40), single], 1);
        let found = deviation(found[1].as_ref().unwrap());
        // As one of the others is, with the tails of three degrees of freedom.
        assert!(found > 0.14 && found < 0.6, "{found}");
        // One that took no time.
        let none =
            off(&[uneven(0..40), terms(&[(40, 0.0, 1.0), (41, 1.0, 1.0), (42, 1.0, 1.0)])], 1);
        assert!(none.iter().flatten().flatten().all(|one| one.is_finite()));
        // Two that happen to be alike are not sure for that.
        let alike = terms(&[(40, 1.0, 1.0), (41, 1.0, 1.0)]);
        let found = off(&[uneven(0..40), alike], 1);
        let found = deviation(found[1].as_ref().unwrap());
        assert!(found > 0.05, "{found}");
    }
}
