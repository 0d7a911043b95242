//! The CPU time that the watch may use in an hour, and how much it used.
//!
//! What for: the sum of all costs of any hour stays below the share that the user allows. What not: measuring a cost, clocks.
//!
//! Times are seconds since 1970, so that a restart goes on counting. Assumption: the clock does not jump forward by much; then
//! costs would be forgotten too early.

use std::collections::VecDeque;

/// The length of the window, seconds.
pub const HOUR: f64 = 3600.0;

/// Later than the end of an hour by more than a rounding error, seconds.
const MOMENT: f64 = 1e-3;

/// Number of past rounds that predict the cost of the next.
const REMEMBERED: usize = 5;

/// What was spent in the last hour.
#[derive(Clone, PartialEq, Debug)]
pub struct Budget {
    /// Seconds of CPU time in an hour.
    pub allowed: f64,
    /// When, and how many seconds.
    spent: VecDeque<(f64, f64)>,
    /// What the last rounds cost.
    rounds: VecDeque<f64>,
}

impl Budget {
    /// `percent` of the time of `cpus` CPUs; `spent` as a process before us left it.
    pub fn new(percent: f64, cpus: usize, spent: impl IntoIterator<Item = (f64, f64)>) -> Budget {
        let allowed = percent / 100.0 * cpus as f64 * HOUR;
        Budget { allowed, spent: spent.into_iter().collect(), rounds: VecDeque::new() }
    }

    /// A cost of now.
    pub fn spend(&mut self, now: f64, seconds: f64) {
        self.spent.push_back((now, seconds));
        self.tidy(now);
    }

    /// Forgets what was spent before the last hour. What a clock that went back says of the future is of now.
    fn tidy(&mut self, now: f64) {
        self.spent.iter_mut().for_each(|(when, _)| *when = when.min(now));
        self.spent.retain(|(when, _)| now - *when < HOUR);
    }

    /// Notes the cost of a whole round, which predicts that of the next.
    pub fn note_round(&mut self, seconds: f64) {
        self.rounds.push_back(seconds);
        if self.rounds.len() > REMEMBERED {
            self.rounds.pop_front();
        }
    }

    /// Seconds that were spent in the hour until now.
    pub fn spent(&self, now: f64) -> f64 {
        self.spent.iter().filter(|(when, _)| now - *when < HOUR).map(|(_, seconds)| seconds).sum()
    }

    /// Seconds that may still be spent now.
    pub fn left(&self, now: f64) -> f64 {
        (self.allowed - self.spent(now)).max(0.0)
    }

    /// How long to wait until the next round fits, seconds. After an hour without any cost the answer is 0 at the latest: a round
    /// that costs more than all is ended when it reaches the limit.
    pub fn wait(&mut self, now: f64) -> f64 {
        self.tidy(now);
        let expected = self.rounds.iter().copied().fold(0.0, f64::max);
        let ends = self.spent.iter().map(|(when, _)| (when + HOUR - now).max(0.0) + MOMENT);
        let mut moments: Vec<f64> = std::iter::once(0.0).chain(ends).collect();
        moments.sort_unstable_by(f64::total_cmp);
        let fits = |after: &f64| {
            let left = self.left(now + after);
            left > 0.0 && (left >= expected || self.spent(now + after) == 0.0)
        };
        moments.into_iter().find(fits).unwrap_or(HOUR)
    }

    /// For the next process.
    pub fn entries(&self) -> impl Iterator<Item = (f64, f64)> {
        self.spent.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_hour_costs_at_most_what_is_allowed() {
        // Half a percent of 2 CPUs: 36 s of each hour.
        let mut budget = Budget::new(0.5, 2, []);
        assert_eq!((budget.allowed, budget.wait(0.0)), (36.0, 0.0));
        let (mut now, mut costs) = (0.0, Vec::new());
        for at in 0..40 {
            now += budget.wait(now);
            // Costs differ; none is more than the largest of the ones before, but for the first.
            let cost = [10.0, 4.0, 7.0][at % 3];
            budget.spend(now, cost);
            budget.note_round(cost);
            costs.push((now, cost));
            now += 60.0;
        }
        for (end, _) in &costs {
            let of_hour = costs.iter().filter(|(when, _)| (0.0..HOUR).contains(&(end - when)));
            let sum: f64 = of_hour.map(|(_, cost)| cost).sum();
            assert!(sum <= 36.0, "{sum} s in the hour until {end}");
        }
        // As often as it may: five rounds an hour of 7 s on average.
        assert!((5.0..9.0).contains(&(now / HOUR)), "{} hours", now / HOUR);
    }

    #[test]
    fn a_restart_goes_on_counting_and_a_round_that_never_fits_is_tried_once_an_hour() {
        let mut budget = Budget::new(0.5, 2, [(1000.0, 36.0)]);
        assert_eq!((budget.left(1001.0), budget.wait(1001.0)), (0.0, HOUR - 1.0 + MOMENT));
        budget.note_round(50.0);
        assert_eq!(budget.wait(1000.0), HOUR + MOMENT);
        assert_eq!(Budget::new(0.5, 2, budget.entries()).left(1001.0), 0.0);
        // A clock that went back: nothing is forgotten, and not for longer than an hour.
        assert_eq!((budget.wait(10.0), budget.left(10.0)), (HOUR + MOMENT, 0.0));
        assert_eq!((budget.wait(10.0 + HOUR), budget.left(10.0 + HOUR)), (0.0, 36.0));
    }
}
