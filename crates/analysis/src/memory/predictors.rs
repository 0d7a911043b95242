//! How many more, or fewer, branches this machine's predictor mispredicts than our model.
//!
//! What for: `branches` models a predictor. For the beginnings of some bursts the real cost of their branches was measured
//! (`collect::no_miss`). Over the model's cost for the same records that is a factor, for each function and for all. What not: the
//! cost of one mispredicted branch in a program (`core_time`).
//!
//! Bounds: the scatter of the bursts (a ratio of sums, linearised: Cochran 1977, 6.4), and [`REPLAY_OFF`]. Without replays
//! [`PREDICTORS_DIFFER`].

use std::collections::{BTreeMap, HashMap};

use estimate::parameters::{PREDICTORS_DIFFER, REPLAY_OFF};
use estimate::ratios::{Ratio, Term, by_group};
use facts::Recording;

use super::pass::Passed;
use crate::stack::FunctionId;

/// Fewer bursts say nothing of others.
const FEWEST: usize = 3;
/// With fewer branches that ours misses, any factor may be chance.
const FEWEST_MISSED: f64 = 100.0;

/// Random numbers of bursts, and of functions without replays.
const SEED: u64 = 0x6272_616e_6368;

/// Factor on the branches that our model mispredicts.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Predictor {
    own: Ratio,
    /// What is off in all functions alike.
    common: f64,
}

impl Predictor {
    /// In a replicate, where what is off in all alike stands at this place between its ends; `None`: the best value.
    pub(super) fn at(&self, place: f64, replicate: Option<usize>) -> f64 {
        self.own.at(replicate) * (1.0 + self.common * place)
    }
}

/// Of all functions in which bursts began.
pub(super) struct Predictors {
    by_function: BTreeMap<FunctionId, Predictor>,
    unknown: Predictor,
}

impl Predictors {
    /// `cost`: seconds of a mispredicted branch.
    pub(super) fn read(recording: &Recording, passed: &Passed, cost: f64) -> Predictors {
        let replays = recording.run.branch_replays.iter();
        let replays: HashMap<u32, f64> =
            replays.map(|one| (one.burst, one.lost_ps as f64 * 1e-12)).collect();
        let mut pairs: BTreeMap<FunctionId, Vec<Term>> = BTreeMap::new();
        let mut last = None;
        for (observation, work) in passed.bursts.iter().enumerate() {
            // A burst is of the function in which it began.
            if last.replace(work.burst) == Some(work.burst) {
                continue;
            }
            let of_function = pairs.entry(work.function).or_default();
            let replayed =
                recording.bursts.get(work.burst).and_then(|burst| replays.get(&burst.id.0));
            if let Some((replayed, missed)) = replayed.zip(passed.foreseen.get(&work.burst)) {
                of_function.push(Term { observation, upper: *replayed, lower: missed * cost });
            }
        }
        Predictors::of_terms(&pairs, cost)
    }

    fn of_terms(pairs: &BTreeMap<FunctionId, Vec<Term>>, cost: f64) -> Predictors {
        let is_enough = |_, terms: &[Term]| {
            let sum = |of: fn(&Term) -> f64| terms.iter().map(of).sum::<f64>();
            let [measured, modelled] = [sum(|term| term.upper), sum(|term| term.lower)];
            terms.len() >= FEWEST && modelled >= FEWEST_MISSED * cost && measured > 0.0
        };
        let found = by_group(pairs, is_enough, SEED).into_iter();
        let of = |(function, own)| (function, Predictor { own, common: REPLAY_OFF.value });
        let unknown = Ratio { best: 1.0, off: Vec::new() };
        Predictors {
            by_function: found.map(of).collect(),
            unknown: Predictor { own: unknown, common: PREDICTORS_DIFFER.value },
        }
    }

    pub(super) fn of(&self, function: FunctionId) -> &Predictor {
        self.by_function.get(&function).unwrap_or(&self.unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COST: f64 = 4e-9;

    /// Replays of bursts in which the model foresees 100 mispredicted branches, as many times so many.
    fn replays(first: usize, ratios: &[f64]) -> Vec<Term> {
        let of = |(at, ratio): (usize, &f64)| Term {
            observation: first + at,
            upper: ratio * 100.0 * COST,
            lower: 100.0 * COST,
        };
        ratios.iter().enumerate().map(of).collect()
    }

    #[test]
    fn replays_correct_the_model() {
        let [known, few, without] = [1, 2, 3].map(FunctionId::new);
        let pairs = BTreeMap::from([
            (known, replays(0, &[1.0, 2.0, 1.0, 2.0, 1.5, 1.5, 1.0, 2.0])),
            (few, replays(8, &[1.5, 1.5])),
            (without, Vec::new()),
        ]);
        let found = Predictors::of_terms(&pairs, COST);
        let at = |function| found.of(function).at(0.0, None);
        assert!([known, few, without].map(at).iter().all(|one| (one - 1.5).abs() < 1e-9));
        assert!((found.of(known).at(1.0, None) / 1.5 - 1.0 - REPLAY_OFF.value).abs() < 1e-9);
        let spread = |function| {
            let each = (0..estimate::REPLICATES).map(|at| found.of(function).at(0.0, Some(at)));
            (each.map(|one| (one - 1.5).powi(2)).sum::<f64>() / 256.0).sqrt()
        };
        assert!(spread(known) > 0.05 && spread(without) > 1.5 * spread(known));
        // Without enough replays the machine's predictor is only known to be one.
        let few = BTreeMap::from([(known, replays(0, &[1.5, 1.5]))]);
        let found = Predictors::of_terms(&few, COST);
        assert_eq!(found.of(known).at(1.0, None), 1.0 + PREDICTORS_DIFFER.value);
    }
}
