//! How often a burst may be.
//!
//! What for: the cost of bursts (threads' stand-still, their estimated slow-down, our CPU time) is added up, and the time
//! to the next burst follows from what the last ones cost and what is allowed. Bringing the cache into processes has a part of
//! its own, so that a program of many short processes does not pay for each of them. What not: taking bursts.
//!
//! Assumption: our CPU time costs the program as much as its own where no CPU is free. Where one is, it costs what the
//! neighbour on a shared core or cache does: [`BESIDE`] of it.

use std::time::Duration;

use base::Nanos;

use crate::tracer::{Cost, Options};

/// Time between bursts is never below this.
const SHORTEST: Duration = Duration::from_millis(1);
/// Nor above this.
const LONGEST: Duration = Duration::from_secs(5);
/// Until the cost of bursts is known.
const FIRST: Duration = Duration::from_millis(30);
/// Of the allowed overhead, what bursts may take; the rest is for clock samples, which cost up to about 1 % of the time
/// (`bench/results/sampling_overhead`), and for the first bursts in new code, which cost more than the later ones.
const SHARE_OF_BURSTS: f64 = 0.4;
/// Of the allowed overhead, what bringing the cache into processes may take.
const SHARE_OF_SET_UPS: f64 = 0.4;
/// A program that ends before this is left alone: what brings the cache in makes it stand still for about half a
/// millisecond, and a burst or two say little.
const SHORT: Nanos = Nanos(50_000_000);
/// No burst costs less, nanoseconds: what stopping and starting a thread takes.
const LEAST_COST: f64 = 10_000.0;
/// A change of cost is followed within some ten bursts.
const MEMORY: f64 = 8.0;
/// A burst that cost more than this many usual ones is paid for by the ones behind it: bringing the cache into a program
/// and translating its code happens once, and would otherwise leave a short program without bursts.
const OUTLIER: f64 = 2.0;
/// Before any burst this much is usual, nanoseconds.
const USUAL: f64 = 1_000_000.0;
/// Of what is not paid for yet, each burst pays one in so many.
const INSTALMENTS: f64 = 32.0;

/// Of our CPU time beside the program what it is slower for: two threads of one core get up to 1.3 times as much done as one
/// (D. T. Marr et al., Hyper-Threading Technology Architecture and Microarchitecture, Intel Technology Journal 6 (1), 2002), so
/// that a neighbour takes a third and more; on a core of its own it takes next to nothing.
pub const BESIDE: f64 = 0.4;

/// Cost so far, and what it means for the next burst.
#[derive(Default)]
pub struct Budget {
    /// The program's cost that was taken note of, and ours, nanoseconds.
    counted: (f64, f64),
    /// Cost of a burst, smoothed, in nanoseconds.
    usual: Option<f64>,
    /// Spent, and not paid for yet, nanoseconds.
    debt: f64,
    /// Spent on bringing the cache into processes, with their first bursts, nanoseconds; and into how many.
    set_ups: f64,
    processes: u32,
}

impl Budget {
    /// Mean time to the next burst, at this time since we began.
    #[must_use]
    pub fn mean_interval(&self, options: &Options, elapsed: Nanos) -> Duration {
        options.interval.unwrap_or_else(|| match self.usual {
            Some(cost) => {
                let share = self.share_of_bursts(elapsed.0 as f64 * options.overhead);
                Duration::from_nanos((cost / (share * options.overhead)) as u64)
                    .clamp(SHORTEST, LONGEST)
            }
            None => FIRST,
        })
    }

    /// Of what was allowed so far, what bursts may take: also half of what set-ups left of theirs. The other half is for
    /// processes to come.
    fn share_of_bursts(&self, allowed: f64) -> f64 {
        let left = SHARE_OF_SET_UPS - self.set_ups / allowed.max(1.0);
        SHARE_OF_BURSTS + left.max(0.0) / 2.0
    }

    /// Whether the cache may be brought into one more process, whose thread has used this much CPU time, at this time since we
    /// began. It may when those before are paid for, and so into the first of a program that is no short one; or when the
    /// process itself has run for long enough to pay for its own.
    #[must_use]
    pub fn pays_for_set_up(&self, options: &Options, elapsed: Nanos, used: Nanos) -> bool {
        let share = SHARE_OF_SET_UPS * options.overhead;
        let usual = self.set_ups / f64::from(self.processes.max(1));
        let is_paid = self.set_ups <= share * elapsed.0 as f64 || usual <= share * used.0 as f64;
        options.interval.is_some() || elapsed >= SHORT && is_paid
    }

    /// Takes note of what bringing a cache into a process cost. Bursts do not pay for it.
    pub fn note_set_up(&mut self, its: Nanos, own: Nanos) {
        self.set_ups += (its + own).0 as f64;
        self.counted.0 += its.0 as f64;
        self.counted.1 += own.0 as f64;
    }

    /// The same of the first one, with a first burst, which meets only new code.
    pub fn note_process(&mut self, its: Nanos, own: Nanos) {
        self.note_set_up(its, own);
        self.processes += 1;
    }

    /// Takes note of the cost of everything so far. Of our own CPU time since the last call this `part` counts.
    pub fn note(&mut self, cost: &Cost, part: f64) {
        let its = (cost.stand_still + cost.slowdown).0 as f64;
        let own = (cost.tracer + cost.consumer).0 as f64;
        let spent = its - self.counted.0 + part * (own - self.counted.1).max(0.0);
        let spent = spent.max(0.0);
        self.counted = (its, own);
        let most = OUTLIER * self.usual.unwrap_or(USUAL).max(USUAL / 2.0);
        self.debt += (spent - most).max(0.0);
        let instalment = self.debt / INSTALMENTS;
        self.debt -= instalment;
        let spent = spent.min(most) + instalment;
        let usual = self.usual.map_or(spent, |usual| usual + (spent - usual) / MEMORY);
        self.usual = Some(usual.max(LEAST_COST));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(interval: Option<Duration>) -> Options {
        let longest = Duration::from_millis(3);
        Options { overhead: 0.03, interval, longest, rationed: false }
    }

    /// Set-ups take all that they may.
    fn with_set_ups() -> Budget {
        Budget { set_ups: 1e18, ..Budget::default() }
    }

    const SECOND: Nanos = Nanos(1_000_000_000);

    #[test]
    fn the_interval_follows_the_cost() {
        let mut budget = with_set_ups();
        assert_eq!(budget.mean_interval(&options(None), SECOND), FIRST);
        let mut cost = Cost::default();
        for _ in 0..100 {
            cost.tracer += Nanos(1_200_000);
            budget.note(&cost, 1.0);
        }
        // 1.2 ms each, and 1.2 % are allowed.
        let mean = budget.mean_interval(&options(None), SECOND).as_secs_f64();
        assert!((mean - 0.1).abs() < 0.001, "{mean}");
    }

    /// Beside a free CPU our own time counts in part.
    #[test]
    fn our_own_time_counts_as_far_as_it_is_taken_from_the_program() {
        let mut budget = with_set_ups();
        let mut cost = Cost::default();
        for _ in 0..100 {
            cost.tracer += Nanos(1_000_000);
            cost.stand_still += Nanos(200_000);
            budget.note(&cost, 0.4);
        }
        // 0.6 ms each, and 1.2 % are allowed.
        let mean = budget.mean_interval(&options(None), SECOND).as_secs_f64();
        assert!((mean - 0.05).abs() < 0.001, "{mean}");
    }

    /// 1.2 ms each; 1.2 % are allowed, and half of what of another 1.2 % of the time is left.
    #[test]
    fn bursts_take_half_of_what_set_ups_leave() {
        let interval = |set_ups| {
            let budget = Budget { set_ups, usual: Some(1.2e6), ..Budget::default() };
            budget.mean_interval(&options(None), SECOND).as_micros()
        };
        assert_eq!([0.0, 6e6, 12e6, 24e6].map(interval), [66_666, 80_000, 100_000, 100_000]);
    }

    /// What is spent at once is paid for in the end: the sum of what bursts are charged is what was spent.
    #[test]
    fn the_cost_of_a_beginning_is_spread_over_many_bursts() {
        let mut budget = with_set_ups();
        let mut cost = Cost { stand_still: Nanos(40_000_000), ..Cost::default() };
        budget.note(&cost, 1.0);
        assert!(budget.mean_interval(&options(None), SECOND) < Duration::from_millis(300));
        let mut charged = 0.0;
        for _ in 0..1000 {
            cost.tracer += Nanos(1_000_000);
            budget.note(&cost, 1.0);
            charged += budget.usual.unwrap_or(0.0);
        }
        let spent = 1_040_000_000.0;
        assert!((charged / spent - 1.0).abs() < 0.02, "{charged}");
        assert!(budget.debt < 1.0);
    }

    /// 12 ms of 1.2 % of a second.
    #[test]
    fn short_processes_do_not_pay_for_each_other() {
        let mut budget = Budget::default();
        let own = options(None);
        let ms = |number: u64| Nanos(number * 1_000_000);
        assert!(!budget.pays_for_set_up(&own, ms(49), ms(200)), "it may end any moment");
        assert!(budget.pays_for_set_up(&own, ms(50), ms(5)), "the first one");
        budget.note_process(ms(4), ms(8));
        assert!(!budget.pays_for_set_up(&own, ms(999), ms(300)));
        assert!(budget.pays_for_set_up(&own, ms(1001), ms(300)), "what was spent is paid for");
        // Another flavour of the second one later.
        budget.note_process(ms(4), ms(15));
        budget.note_set_up(ms(0), ms(5));
        // 36 ms, 18 each.
        assert!(!budget.pays_for_set_up(&own, ms(2999), ms(1499)));
        assert!(budget.pays_for_set_up(&own, ms(2999), ms(1501)), "it pays for its own");
        assert!(budget.pays_for_set_up(&options(Some(FIRST)), ms(30), ms(30)));
        // Bursts do not pay for it.
        budget.note(&Cost { stand_still: ms(9), tracer: ms(28), ..Cost::default() }, 1.0);
        assert_eq!(budget.usual, Some(1e6));
    }

    #[test]
    fn a_given_interval_is_kept_and_extremes_are_bounded() {
        let mut budget = with_set_ups();
        let cost = Cost { tracer: Nanos(3_600_000_000_000), ..Cost::default() };
        budget.note(&cost, 1.0);
        let given = Duration::from_millis(1);
        assert_eq!(budget.mean_interval(&options(Some(given)), SECOND), given);
        assert_eq!(budget.mean_interval(&options(None), SECOND), LONGEST);
        for _ in 0..1000 {
            budget.note(&cost, 1.0);
        }
        assert_eq!(budget.mean_interval(&options(None), SECOND), SHORTEST);
    }
}
