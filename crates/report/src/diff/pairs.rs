//! Which runs were recorded next to each other, one of either side: these are compared pairwise.
//!
//! What not: the statistics of pairs (`analysis::compare`).

use analysis::compare::pairs_in_turn;
use facts::Metric;

use super::RunFigures;

/// Which run of the base was recorded next to which new one; none when they were not recorded in turn.
#[derive(Clone, Debug, Default)]
pub(super) struct Pairs(Vec<(usize, usize)>);

impl Pairs {
    pub(super) fn of(base: &[RunFigures], new: &[RunFigures]) -> Pairs {
        let started = |side: &[RunFigures]| side.iter().map(|run| run.started).collect::<Vec<_>>();
        Pairs(pairs_in_turn(&started(base), &started(new)).unwrap_or_default())
    }

    /// Their number; each run is paired with the one of its own number.
    #[cfg(test)]
    pub(super) fn in_order(pairs: usize) -> Pairs {
        Pairs((0..pairs).map(|run| (run, run)).collect())
    }

    pub(super) fn are_none(&self) -> bool {
        self.0.is_empty()
    }

    /// Values of either side in the order of the pairs; `None` without pairs, or when a run lacks the figure.
    pub(super) fn values(&self, base: &[Metric], new: &[Metric]) -> Option<(Vec<f64>, Vec<f64>)> {
        let of = |&(b, n): &(usize, usize)| base.get(b)?.value.zip(new.get(n)?.value);
        let values: Option<Vec<(f64, f64)>> = self.0.iter().map(of).collect();
        values.filter(|values| !values.is_empty()).map(|values| values.into_iter().unzip())
    }
}
