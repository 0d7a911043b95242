//! How many more, or fewer, branches this machine's predictor mispredicts than our model.
//!
//! What for: `branches` models a predictor. For the beginnings of some bursts the real cost of their branches was measured
//! (`collect::no_miss`). Over the model's cost for the same records that is a factor, for each function and for all. What not: the
//! cost of one mispredicted branch in a program (`core_time`).
//!
//! Bounds: the scatter of the bursts (a ratio of sums, linearised: Cochran 1977, 6.4), and [`REPLAY_OFF`]. Without replays
//! [`PREDICTORS_DIFFER`].

use std::collections::{BTreeMap, HashMap};

use estimate::Bounds;
use estimate::interval::ratio_and_half;
use estimate::parameters::{PREDICTORS_DIFFER, REPLAY_OFF};
use facts::Recording;

use super::pass::Passed;
use crate::stack::FunctionId;

/// Fewer bursts say nothing of others.
const FEWEST: usize = 3;
/// With fewer branches that ours misses, any factor may be chance.
const FEWEST_MISSED: f64 = 100.0;

/// Cost of a burst's branches by replay, and by our model, seconds.
type Pair = (f64, f64);

/// Factors on the branches that our model mispredicts.
pub(super) struct Predictors {
    by_function: HashMap<FunctionId, Bounds>,
    all: Bounds,
}

impl Predictors {
    /// `cost`: seconds of a mispredicted branch.
    pub(super) fn read(recording: &Recording, passed: &Passed, cost: f64) -> Predictors {
        let replays = recording.run.branch_replays.iter();
        let replays: HashMap<u32, f64> =
            replays.map(|one| (one.burst, one.lost_ps as f64 * 1e-12)).collect();
        let mut pairs: BTreeMap<FunctionId, Vec<Pair>> = BTreeMap::new();
        let mut last = None;
        for work in &passed.bursts {
            // A burst is of the function in which it began.
            if last.replace(work.burst) == Some(work.burst) {
                continue;
            }
            let replayed =
                recording.bursts.get(work.burst).and_then(|burst| replays.get(&burst.id.0));
            let both = replayed.zip(passed.foreseen.get(&work.burst));
            if let Some((replayed, missed)) = both {
                pairs.entry(work.function).or_default().push((*replayed, missed * cost));
            }
        }
        let all: Vec<Pair> = pairs.values().flatten().copied().collect();
        let differ = PREDICTORS_DIFFER.value;
        let unknown = Bounds { best: 1.0, low: 1.0 - differ, high: 1.0 + differ };
        let of = |(function, pairs): (_, Vec<Pair>)| Some((function, factor(&pairs, cost, 0.0)?));
        Predictors {
            by_function: pairs.into_iter().filter_map(of).collect(),
            // Another function is a further burst.
            all: factor(&all, cost, 1.0).unwrap_or(unknown),
        }
    }

    pub(super) fn of(&self, function: FunctionId) -> Bounds {
        self.by_function.get(&function).copied().unwrap_or(self.all)
    }
}

/// The sum of the measured over that of the modelled costs, for `further` more bursts; `None` with too few data.
fn factor(pairs: &[Pair], cost: f64, further: f64) -> Option<Bounds> {
    let modelled: f64 = pairs.iter().map(|pair| pair.1).sum();
    if pairs.len() < FEWEST || modelled < FEWEST_MISSED * cost {
        return None;
    }
    let (ratio, half) = ratio_and_half(pairs, further)?;
    let half = half?;
    let off = REPLAY_OFF.value;
    Some(Bounds {
        best: ratio,
        low: (ratio - half).max(0.0) * (1.0 - off),
        high: (ratio + half) * (1.0 + off),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replays_correct_the_model() {
        let cost = 4e-9;
        let alike = [(150.0 * cost, 100.0 * cost); 4];
        let off = REPLAY_OFF.value;
        let near = |a: Bounds, b: Bounds| {
            [(a.best, b.best), (a.low, b.low), (a.high, b.high)]
                .iter()
                .all(|(a, b)| (a - b).abs() < 1e-9)
        };
        let expected = Bounds { best: 1.5, low: 1.5 * (1.0 - off), high: 1.5 * (1.0 + off) };
        assert!(near(factor(&alike, cost, 0.0).unwrap(), expected));
        assert!(near(factor(&alike, cost, 1.0).unwrap(), expected));
        let mixed = [1.0, 2.0, 1.0, 2.0].map(|one| (one * 100.0 * cost, 100.0 * cost));
        let Bounds { best, low, high } = factor(&mixed, cost, 0.0).unwrap();
        assert!((best - 1.5).abs() < 1e-9 && low < 0.7 && high > 2.4, "{low} {high}");
        assert!(factor(&mixed, cost, 1.0).unwrap().high > high);
        assert_eq!(factor(&alike[..2], cost, 0.0), None);
        assert_eq!(factor(&[(cost, 9.0 * cost); 5], cost, 0.0), None, "too few are missed");
    }
}
