//! The uncertainty of one timed load from the steps of the time-stamp counter.
//!
//! What for: on some processors the counter advances in steps (AMD Zen: of 10 ns; the reading is that of a 100 MHz clock times a
//! factor). Two readings then differ by a whole number of steps, one too few or too many by chance: the mean of many is right,
//! a single one is known to a step. What not: the cost of a reading (`latency`).
//!
//! Assumption: the first reading is anywhere in a step with equal probability. So the true time of a shown time t lies between
//! t - step and t + step, with a triangular density.

use std::collections::BTreeSet;
use std::iter::Sum;

const FEWEST: usize = 3;
/// Finer steps change nothing that is shown, nanoseconds.
const FINE: f64 = 1.0;

/// The uncertainty of single times.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct TimerStep {
    /// Nanoseconds; 0 where it does not matter.
    step: f64,
}

/// A share, or a number, of times within bounds.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct WithinBounds {
    /// Those that surely are.
    pub(super) sure: f64,
    /// By the triangle.
    pub(super) best: f64,
    /// Those that may be.
    pub(super) possible: f64,
}

impl TimerStep {
    /// From differences of readings: the step is their greatest common divisor. Fewer than [`FEWEST`] different ones give none.
    pub(super) fn of(cycles: impl Iterator<Item = u32>, nanos_per_cycle: f64) -> TimerStep {
        let different: BTreeSet<u32> = cycles.collect();
        if different.len() < FEWEST {
            return TimerStep::default();
        }
        let divisor = different.into_iter().fold(0, common_divisor);
        let step = f64::from(divisor) * nanos_per_cycle;
        TimerStep { step: if step.is_finite() && step >= FINE { step } else { 0.0 } }
    }

    /// Nanoseconds; 0 where it does not matter.
    pub(super) fn step(self) -> f64 {
        self.step
    }

    /// Whether a time that shows as `nanos` lies from `from` on and below `to`. A first bound of 0 excludes nothing.
    pub(super) fn within(self, nanos: f64, from: f64, to: f64) -> WithinBounds {
        let from = if from > 0.0 { from } else { f64::NEG_INFINITY };
        let share = |holds: bool| if holds { 1.0 } else { 0.0 };
        if self.step == 0.0 {
            let is_within = share(from <= nanos && nanos < to);
            return WithinBounds { sure: is_within, best: is_within, possible: is_within };
        }
        let (least, most) = (nanos - self.step, nanos + self.step);
        WithinBounds {
            sure: share(from <= least && most < to),
            best: self.below(to - nanos) - self.below(from - nanos),
            possible: share(from <= most && least < to),
        }
    }

    /// The triangle's part below this distance from its middle.
    fn below(self, distance: f64) -> f64 {
        let place = (distance / self.step).clamp(-1.0, 1.0);
        if place < 0.0 { (1.0 + place).powi(2) / 2.0 } else { 1.0 - (1.0 - place).powi(2) / 2.0 }
    }
}

impl WithinBounds {
    /// The bounds of a part that has this weight.
    pub(super) fn times(self, weight: f64) -> WithinBounds {
        let WithinBounds { sure, best, possible } = self;
        WithinBounds { sure: sure * weight, best: best * weight, possible: possible * weight }
    }
}

impl Sum for WithinBounds {
    fn sum<I: Iterator<Item = WithinBounds>>(all: I) -> WithinBounds {
        all.fold(WithinBounds::default(), |sum, one| WithinBounds {
            sure: sum.sure + one.sure,
            best: sum.best + one.best,
            possible: sum.possible + one.possible,
        })
    }
}

fn common_divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_step_is_what_all_differences_share() {
        let of = |cycles: &[u32]| TimerStep::of(cycles.iter().copied(), 1.0 / 2.6).step();
        assert_eq!(of(&[52, 78, 26, 520]), 10.0);
        assert_eq!(of(&[52, 78, 26, 521]), 0.0, "every cycle shows");
        assert_eq!(of(&[52, 78, 26, 522]), 0.0, "steps of a nanosecond are no matter");
        assert_eq!(of(&[]), 0.0);
        assert_eq!(of(&[52, 520, 52, 520]), 0.0, "two may have it by chance");
    }

    #[test]
    fn fine_times_are_what_they_show() {
        let fine = TimerStep::default();
        let yes = WithinBounds { sure: 1.0, best: 1.0, possible: 1.0 };
        assert_eq!(fine.within(2.0, 2.0, 5.0), yes);
        assert_eq!(fine.within(5.0, 2.0, 5.0), WithinBounds::default());
        assert_eq!(fine.within(-1.0, 0.0, 5.0), yes);
    }

    #[test]
    fn a_time_is_spread_over_two_steps() {
        let timer_step = TimerStep { step: 10.0 };
        let parts = [0.0, 2.0, 10.0, 20.0, f64::INFINITY];
        let parts: Vec<WithinBounds> =
            parts.windows(2).map(|ends| timer_step.within(10.0, ends[0], ends[1])).collect();
        let best: f64 = parts.iter().map(|part| part.best).sum();
        assert!((best - 1.0).abs() < 1e-12);
        assert!((parts[1].best - 0.48).abs() < 1e-12, "{parts:?}");
        assert!((parts[2].best - 0.5).abs() < 1e-12, "{parts:?}");
        assert_eq!(parts.iter().map(|part| part.sure).sum::<f64>(), 0.0);
        assert!(parts.iter().all(|part| part.possible == 1.0));
        let far = timer_step.within(100.0, 50.0, f64::INFINITY);
        assert_eq!(far, WithinBounds { sure: 1.0, best: 1.0, possible: 1.0 });
    }
}
