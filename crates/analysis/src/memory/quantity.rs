//! An amount per burst and region, with bounds for what the cache model cannot know.
//!
//! What for: amounts of bursts, to be expanded to the program's time (`expansion`). What not: the scatter of bursts.

use estimate::Bounds;

/// The amount in each observation.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Quantity(pub(crate) Vec<Bounds>);

impl Quantity {
    /// 0 in each of this many observations.
    pub(crate) fn none(observations: usize) -> Quantity {
        Quantity(vec![Bounds::default(); observations])
    }

    /// Known amounts.
    pub(crate) fn exactly(amounts: impl Iterator<Item = f64>) -> Quantity {
        Quantity(amounts.map(Bounds::exactly).collect())
    }

    /// Adds to one look.
    pub(crate) fn add(&mut self, observation: usize, amount: Bounds) {
        self.0[observation] = self.0[observation].plus(amount);
    }

    /// Makes one look 0 again.
    pub(crate) fn clear(&mut self, observation: usize) {
        self.0[observation] = Bounds::default();
    }

    pub(crate) fn plus(&self, other: &Quantity) -> Quantity {
        Quantity(self.0.iter().zip(&other.0).map(|(a, b)| a.plus(*b)).collect())
    }

    /// Likely, of all looks together.
    pub(crate) fn sum(&self) -> f64 {
        self.0.iter().map(|one| one.best).sum()
    }
}
