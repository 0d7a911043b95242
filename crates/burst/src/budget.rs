//! The rate of bursts, from what they cost.
//!
//! What for: adds up the cost of bursts: stopped time of threads, their estimated slow-down, our CPU time. The mean
//! time to the next burst follows from the cost of the last ones and from the allowed overhead, for brief and long
//! bursts separately. Bringing the cache into processes has an allowance of its own, so that a program of many short
//! processes does not pay for each of them. What not: taking bursts.
//!
//! While a thread is stopped, its CPU is free for the tracer. The rest of our CPU time costs the program as much as it waits for
//! CPUs meanwhile (`displaced`).

use std::time::Duration;

use base::Nanos;

use crate::schedule::Length;
use crate::tracer::{Cost, Options};

/// The chance that a burst is a long one, where the user sets the interval.
const LONG_IF_GIVEN: f64 = 0.75;
/// Least time between bursts, ns.
const SHORTEST: f64 = 1e6;
/// Most time between bursts, ns.
const LONGEST: f64 = 5e9;
/// Share of the allowed overhead that bursts may take. The rest is for bringing the cache into processes. Clock samples come
/// on top: up to about 1 % of the time (`bench/results/sampling_overhead`).
const SHARE_OF_BURSTS: f64 = 0.6;
/// Share of that for brief bursts: many short ones observe more than few long ones, except reuse over a long time.
const SHARE_OF_BRIEF: f64 = 0.6;
/// Share of the allowed overhead for bringing the cache into processes.
const SHARE_OF_SET_UPS: f64 = 0.4;
/// A program that ends before this is left alone: bringing the cache in stops it for about half a millisecond, and
/// one or two bursts tell little.
const SHORT: Nanos = Nanos(50_000_000);
/// The allowance of bursts is available early in this time.
const EARLY: Nanos = Nanos(500_000_000);
/// Least cost of a burst, ns: stopping and starting a thread.
const LEAST_COST: f64 = 10_000.0;
/// The smoothed cost follows a change within about ten bursts.
const MEMORY: f64 = 8.0;
/// Of a burst's cost, at most so many usual ones change what is usual. The first bursts in new code cost much more than later
/// ones; what they cost is spent nevertheless.
const OUTLIER: f64 = 2.0;
/// What the tracer did not work for is spent up to so many usual bursts. Beyond, it was not the burst: the machine stood still,
/// or our thread got no CPU for a while. Waiting until that is paid for would leave the program without bursts: 0.2 s are 10 s
/// of them.
const MOST_WAITED: f64 = 10.0;
/// Assumed cost before the first burst, ns: brief, long.
const USUAL: [f64; 2] = [120_000.0, 1_500_000.0];

/// The cost so far, and the rate of bursts that follows from it.
pub struct Budget {
    /// The cost that is already accounted for.
    counted: Cost,
    brief: Ledger,
    long: Ledger,
    /// Spent on bursts, ns.
    bursts: f64,
    /// Spent on bringing the cache into processes, with their first bursts, ns; and the number of processes.
    set_ups: f64,
    processes: u32,
}

impl Default for Budget {
    fn default() -> Budget {
        let [brief, long] = USUAL.map(Ledger::new);
        Budget { counted: Cost::default(), brief, long, bursts: 0.0, set_ups: 0.0, processes: 0 }
    }
}

/// The cost of bursts of one length, ns.
struct Ledger {
    /// The assumed cost, before any was taken.
    guess: f64,
    /// The smoothed cost of one.
    usual: f64,
}

impl Ledger {
    fn new(guess: f64) -> Ledger {
        Ledger { guess, usual: guess }
    }

    /// Notes what a burst cost, and for how much of that the tracer worked; returns what is to be paid for.
    fn note(&mut self, cost: f64, worked: f64) -> f64 {
        let usual = self.usual.max(self.guess / 2.0);
        let seen = cost.min(OUTLIER * usual);
        self.usual = (self.usual + (seen - self.usual) / MEMORY).max(LEAST_COST);
        cost.min(worked.max(MOST_WAITED * usual))
    }

    /// The mean time between bursts that may take this part of the time.
    fn interval(&self, part: f64) -> f64 {
        (self.usual / part.max(1e-9)).clamp(SHORTEST, LONGEST)
    }
}

/// When the allowance of this much time is available: half of [`EARLY`]'s from the start, so that a program that ends by
/// then has had bursts, and after [`EARLY`] that of the time so far. In between it grows half as fast as time.
fn paid_at(time: f64) -> f64 {
    let early = EARLY.0 as f64;
    if time < early { 2.0 * time - early } else { time }
}

/// When the next burst is due, on average.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Next {
    /// Time to it.
    pub interval: Duration,
    /// The chance that it is a long one, 0..1.
    pub long: f64,
}

impl Budget {
    /// When the next burst is due, on average, at this time since the start.
    #[must_use]
    pub fn next(&self, options: &Options, elapsed: Nanos) -> Next {
        if let Some(interval) = options.interval {
            return Next { interval, long: LONG_IF_GIVEN };
        }
        let allowed = elapsed.max(EARLY).0 as f64 * options.overhead;
        let part = self.share_of_bursts(allowed) * options.overhead;
        let brief = self.brief.interval(part * SHARE_OF_BRIEF);
        let long = self.long.interval(part * (1.0 - SHARE_OF_BRIEF));
        let mean = 1.0 / (1.0 / brief + 1.0 / long);
        let usual = mean / brief * self.brief.usual + mean / long * self.long.usual;
        let paid = paid_at((self.bursts + usual) / part) - elapsed.0 as f64;
        let interval = mean.max(paid).clamp(SHORTEST, LONGEST);
        Next { interval: Duration::from_nanos(interval as u64), long: mean / long }
    }

    /// The share of bursts of what is allowed so far, with half of what set-ups have left of theirs. The other half is for processes
    /// to come.
    fn share_of_bursts(&self, allowed: f64) -> f64 {
        let left = SHARE_OF_SET_UPS - self.set_ups / allowed.max(1.0);
        SHARE_OF_BURSTS + left.max(0.0) / 2.0
    }

    /// Whether the cache may be brought into one more process, whose thread has used this much CPU time, at this time
    /// since the start. It may when the set-ups before are paid for: so into the first process of a program that is
    /// not short. It also may when the process itself has run long enough to pay for its own.
    #[must_use]
    pub fn pays_for_set_up(&self, options: &Options, elapsed: Nanos, used: Nanos) -> bool {
        let share = SHARE_OF_SET_UPS * options.overhead;
        let usual = self.set_ups / f64::from(self.processes.max(1));
        let is_paid = self.set_ups <= share * elapsed.0 as f64 || usual <= share * used.0 as f64;
        options.interval.is_some() || elapsed >= SHORT && is_paid
    }

    /// Adds the cost of bringing a cache into a process. Of our own CPU time while the thread ran, `part` counts. Bursts do
    /// not pay for it.
    pub fn note_set_up(&mut self, its: Nanos, own: Nanos, part: f64) {
        self.set_ups += its.0 as f64 + part * (own - its).0 as f64;
        self.counted.stand_still += its;
        self.counted.tracer += own;
    }

    /// Adds the cost of the first cache of a process together with its first burst, which meets only new code.
    pub fn note_process(&mut self, its: Nanos, own: Nanos, part: f64) {
        self.note_set_up(its, own, part);
        self.processes += 1;
    }

    /// Brings the cost up to date after a turn of this length. `part` of our CPU time since the last call counts, but
    /// not what the tracer used while the thread was stopped.
    pub fn note(&mut self, cost: &Cost, length: Length, part: f64) {
        let since = |now: Nanos, before: Nanos| now.0.saturating_sub(before.0) as f64;
        let before = std::mem::replace(&mut self.counted, *cost);
        let tracer = since(cost.tracer, before.tracer);
        let stand_still = since(cost.stand_still, before.stand_still);
        let unstopped = (tracer - stand_still).max(0.0) + since(cost.consumer, before.consumer);
        let slowdown = since(cost.slowdown, before.slowdown);
        let spent = slowdown + stand_still + part * unstopped;
        let worked = slowdown + tracer.min(stand_still) + part * unstopped;
        self.bursts += match length {
            Length::Brief => self.brief.note(spent, worked),
            Length::Long => self.long.note(spent, worked),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(interval: Option<Duration>) -> Options {
        let longest = Duration::from_millis(3);
        Options { overhead: 0.03, interval, longest, rationed: false }
    }

    /// Set-ups take their whole allowance.
    fn with_set_ups() -> Budget {
        Budget { set_ups: 1e18, ..Budget::default() }
    }

    const SECOND: Nanos = Nanos(1_000_000_000);

    /// The mean time between brief bursts, and between long ones, ms, where those so far are paid for.
    fn intervals(budget: &mut Budget) -> [f64; 2] {
        budget.bursts = 0.0;
        let next = budget.next(&options(None), SECOND);
        let both = next.interval.as_secs_f64() * 1e3;
        [both / (1.0 - next.long), both / next.long]
    }

    fn assert_near(found: [f64; 2], expected: [f64; 2]) {
        let is_near =
            found.iter().zip(expected).all(|(found, one)| (found / one - 1.0).abs() < 0.01);
        assert!(is_near, "{found:?} {expected:?}");
    }

    #[test]
    fn the_interval_follows_the_cost_of_each_length() {
        let mut budget = with_set_ups();
        // 1.8 % are allowed, 60 % of it for brief ones.
        assert_near(intervals(&mut budget), [120.0 / 10.8, 1500.0 / 7.2]);
        let mut cost = Cost::default();
        for _ in 0..100 {
            cost.tracer += Nanos(36_000);
            budget.note(&cost, Length::Brief, 1.0);
            cost.slowdown += Nanos(480_000);
            budget.note(&cost, Length::Long, 1.0);
        }
        assert_near(intervals(&mut budget), [3.6 / 1.08, 48.0 / 0.72]);
    }

    /// What the tracer does while the thread is stopped counts once.
    #[test]
    fn our_own_time_counts_as_far_as_it_is_taken_from_the_program() {
        let mut budget = with_set_ups();
        let mut cost = Cost::default();
        for _ in 0..100 {
            cost.consumer += Nanos(500_000);
            cost.tracer += Nanos(300_000);
            cost.stand_still += Nanos(200_000);
            budget.note(&cost, Length::Long, 0.4);
        }
        // 0.44 ms each, and 0.72 % are allowed.
        assert_near(intervals(&mut budget), [120.0 / 10.8, 44.0 / 0.72]);
    }

    /// 1.8 % are allowed, and half of what of another 1.2 % of the time is left.
    #[test]
    fn bursts_take_half_of_what_set_ups_leave() {
        let interval = |set_ups| intervals(&mut Budget { set_ups, ..Budget::default() });
        assert_near(interval(0.0), [120.0 / 14.4, 1500.0 / 9.6]);
        assert_near(interval(6e6), [120.0 / 12.6, 1500.0 / 8.4]);
        assert_near(interval(24e6), [120.0 / 10.8, 1500.0 / 7.2]);
    }

    /// Bursts of a millisecond each, when they are due on average: what they spent until each time, ms.
    fn spent_until(budget: &mut Budget, ends: &[u64]) -> Vec<f64> {
        let (mut cost, mut now) = (budget.counted, Nanos(0));
        let before = cost.slowdown;
        let mut spent_by = |end: Nanos| {
            loop {
                let wait = budget.next(&options(None), now).interval.as_nanos() as u64;
                if now.0 + wait > end.0 {
                    return (cost.slowdown - before).0 as f64 / 1e6;
                }
                now += Nanos(wait);
                cost.slowdown += Nanos(1_000_000);
                budget.note(&cost, Length::Brief, 1.0);
            }
        };
        ends.iter().map(|ms| spent_by(Nanos(ms * 1_000_000))).collect()
    }

    /// 1.8 % of the time are allowed, half of 9 ms at the start.
    #[test]
    fn what_is_spent_at_once_is_waited_for() {
        let spent = spent_until(&mut with_set_ups(), &[100, 500, 1000, 10_000]);
        let most = [5.4, 9.0, 18.0, 180.0].map(|allowed| allowed + 1.0);
        assert!(spent.iter().zip(most).all(|(spent, most)| *spent <= most), "{spent:?}");
        assert!(spent[0] >= 3.0 && spent[3] > 150.0, "{spent:?}");
    }

    #[test]
    fn a_stop_of_the_machine_is_not_paid_for() {
        let mut budget = with_set_ups();
        let cost = Cost { stand_still: Nanos(200_000_000), ..Cost::default() };
        budget.note(&cost, Length::Brief, 1.0);
        let spent = spent_until(&mut budget, &[1000]);
        assert!((14.0..18.0).contains(&spent[0]), "{spent:?}");
    }

    /// A burst in new code, of which each block is translated while the thread stands still.
    #[test]
    fn what_the_tracer_worked_for_is_paid_for() {
        let mut budget = with_set_ups();
        let (worked, stood) = (Nanos(6_000_000), Nanos(9_000_000));
        let cost = Cost { stand_still: stood, tracer: worked, ..Cost::default() };
        budget.note(&cost, Length::Brief, 1.0);
        assert!((budget.bursts - 6e6).abs() < 1.0, "{}", budget.bursts);
    }

    /// 12 ms of 1.2 % of a second.
    #[test]
    fn short_processes_do_not_pay_for_each_other() {
        let mut budget = Budget::default();
        let own = options(None);
        let ms = |number: u64| Nanos(number * 1_000_000);
        assert!(!budget.pays_for_set_up(&own, ms(49), ms(200)), "it may end any moment");
        assert!(budget.pays_for_set_up(&own, ms(50), ms(5)), "the first one");
        budget.note_process(ms(4), ms(12), 1.0);
        assert!(!budget.pays_for_set_up(&own, ms(999), ms(300)));
        assert!(budget.pays_for_set_up(&own, ms(1001), ms(300)), "what was spent is paid for");
        // Another flavour of the second one later.
        budget.note_process(ms(4), ms(19), 1.0);
        budget.note_set_up(ms(0), ms(5), 1.0);
        // 36 ms, 18 each.
        assert!(!budget.pays_for_set_up(&own, ms(2999), ms(1499)));
        assert!(budget.pays_for_set_up(&own, ms(2999), ms(1501)), "it pays for its own");
        let given = Some(Duration::from_millis(30));
        assert!(budget.pays_for_set_up(&options(given), ms(30), ms(30)));
        // Bursts do not pay for it: what is new of these costs is nothing.
        let cost = Cost { stand_still: ms(8), tracer: ms(36), ..Cost::default() };
        let usual = budget.long.usual;
        budget.note(&cost, Length::Long, 1.0);
        assert!(budget.long.usual < usual);
    }

    #[test]
    fn a_given_interval_is_kept_and_extremes_are_bounded() {
        let mut budget = with_set_ups();
        let given = Duration::from_millis(1);
        assert_eq!(
            budget.next(&options(Some(given)), SECOND),
            Next { interval: given, long: 0.75 }
        );
        (budget.brief.usual, budget.long.usual) = (1e15, 1e15);
        assert_near(intervals(&mut budget), [10_000.0, 10_000.0]);
        (budget.brief.usual, budget.long.usual) = (1.0, 1.0);
        assert_eq!(budget.next(&options(None), SECOND).interval, Duration::from_millis(1));
    }
}
