//! When page faults are looked at, of a program that has very many.
//!
//! What for: the kernel's software event costs a fault some 100 to 300 ns, sampled or only counted, whatever the rate of
//! samples: 100 where its data stay in the nearest cache, 300 behind the clearing of a page (touch_pages in virtual machines
//! of 2 CPUs: 1.9 us alone and 8 to 10 % more on AMD Zen 5, 3.1 us and 10 to 13 % on Zen 3). At hundreds of thousands of
//! faults a second that is too much. So the event of minor faults is then on for a part of the time only, and a record in a
//! window stands for as many faults more as the pause behind the window is long. The total is the kernel's own (getrusage).
//! Windows are short and many, with some records each: a program that touches its memory in a tenth of a second and then does
//! something else is still told by several.
//! What not: switching the event (`mod`), major faults: each of them takes longer than anything here.
//!
//! ```text
//!   window | window, of which each record counts `factor` times | pause: (factor - 1) x the window | window ...
//! ```
//! Pauses are drawn at random around their length, so that they do not fall into step with the program; what one was longer
//! than that, for nobody woke up in time, the next ones are shorter.

use std::collections::VecDeque;

use base::Nanos;
use sys::perf::Counting;
use tracee::random::Random;

/// A window is at least so long: some samples.
const LEAST: Nanos = Nanos(4_000_000);
/// And so many times as long as switching the event took, which grows with the number of threads and CPUs.
const SWITCHES: u64 = 50;
/// So many faults are all looked at first, which takes the program some 10 ms: most programs have no more.
const FIRST: u64 = 32_768;
/// What the event costs a fault, seconds: the most of the above.
pub(super) const COST: f64 = 300e-9;
/// And what it costs while it is off, for the kernel then looks for events that are on: by a profile of the kernel under
/// touch_pages.
pub(super) const COST_WHILE_OFF: f64 = 80e-9;
/// It may slow a program down by so much.
const ALLOWED: f64 = 0.01;
/// A program is looked at for at least so much of its time, the inverse.
const MOST_FACTOR: u64 = 10;

/// From a moment on, each record of a fault counts so many times; 0: it is behind the end of a window.
#[derive(Clone, Copy, Debug)]
struct Span {
    from: Nanos,
    factor: u64,
}

/// Windows and pauses. Times are since the start of the recording.
#[derive(Debug)]
pub(super) struct FaultWindows {
    spans: VecDeque<Span>,
    /// The window at hand, or the last one: when it began, how many faults were counted until then.
    from: Nanos,
    counted: u64,
    factor: u64,
    /// In a pause: when it is to end, and the next window's factor.
    pause: Option<(Nanos, u64)>,
    /// Windows are no shorter.
    least: Nanos,
    /// What pauses were too long, summed up.
    owed: u64,
    has_paused: bool,
    /// How many faults records stood for, before they were weighted.
    told: u64,
    random: Random,
}

impl FaultWindows {
    pub(super) fn new() -> FaultWindows {
        FaultWindows {
            spans: VecDeque::from([Span { from: Nanos(0), factor: 1 }]),
            from: Nanos(0),
            counted: 0,
            factor: 1,
            pause: None,
            least: LEAST,
            owed: 0,
            has_paused: false,
            told: 0,
            random: Random::new(0xfa17),
        }
    }

    /// How many faults a record stands for that stands for `faults` of those counted; 0 for one that is represented by others.
    /// Records come in order of time.
    pub(super) fn weight(&mut self, time: Nanos, faults: u64) -> u64 {
        self.told = self.told.saturating_add(faults);
        while self.spans.get(1).is_some_and(|next| next.from <= time) {
            self.spans.pop_front();
        }
        self.spans.front().map_or(faults, |span| faults.saturating_mul(span.factor))
    }

    /// Whether there ever was a pause: what was counted is not all.
    pub(super) fn has_paused(&self) -> bool {
        self.has_paused
    }

    /// When [`FaultWindows::switch`] has something to do next; `None` while all faults are looked at.
    pub(super) fn due(&self) -> Option<Nanos> {
        match self.pause {
            Some((end, _)) => Some(end),
            None => (self.factor > 1).then(|| self.from + self.least),
        }
    }

    /// Switching the event took so long.
    pub(super) fn switched(&mut self, took: Nanos) {
        self.least = LEAST.max(Nanos(took.0.saturating_mul(SWITCHES)));
    }

    /// It is `now`; says whether the event must be switched, and to what. `count` tells how many faults were counted so far.
    pub(super) fn switch(&mut self, now: Nanos, count: impl FnOnce() -> u64) -> Option<Counting> {
        if let Some((end, factor)) = self.pause {
            if now < end {
                return None;
            }
            self.owed += (now - end).0;
            self.pause = None;
            self.begin(now, self.counted, factor);
            return Some(Counting::On);
        }
        let length = now - self.from.min(now);
        // To read a counter interrupts the CPU that the program runs on: not for a program that has few faults.
        if length < self.least || self.told < FIRST / 2 {
            return None;
        }
        let counted = count();
        if counted < FIRST {
            self.begin(now, counted, 1);
            return None;
        }
        let rate = counted.saturating_sub(self.counted) as f64 / length.seconds();
        let next = ((rate * COST / ALLOWED).ceil() as u64).clamp(1, MOST_FACTOR);
        if self.factor == 1 {
            self.begin(now, counted, next);
            return None;
        }
        let pause = self.random.around(Nanos(length.0.saturating_mul(self.factor - 1)));
        let paid = self.owed.min(pause.0);
        self.owed -= paid;
        self.pause = Some((now + Nanos(pause.0 - paid), next));
        self.has_paused = true;
        self.counted = counted;
        self.spans.push_back(Span { from: now, factor: 0 });
        Some(Counting::Off)
    }

    fn begin(&mut self, from: Nanos, counted: u64, factor: u64) {
        (self.from, self.counted, self.factor) = (from, counted, factor);
        if self.spans.back().is_none_or(|last| last.factor != factor) {
            self.spans.push_back(Span { from, factor });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: u64 = 1_000_000;

    /// Faults at `rate` a second for `seconds`, a record for each 100 that the event sees, looked at every 10 ms: how many faults
    /// the records stand for, and the share of the time in which the event was on.
    fn run(rate: u64, seconds: u64) -> (u64, f64) {
        let mut windows = FaultWindows::new();
        let (mut on, mut seen, mut stood_for, mut time_on) = (true, 0u64, 0u64, 0u64);
        let mut read = 0;
        for at in 0..seconds * 100 {
            let now = Nanos(at * 10 * MILLISECOND);
            match windows.switch(now, || seen) {
                Some(Counting::On) => on = true,
                Some(Counting::Off) => on = false,
                None => {}
            }
            if on {
                time_on += 1;
                seen += rate / 100;
                while seen - read >= 100 {
                    read += 100;
                    stood_for += windows.weight(Nanos(now.0 + MILLISECOND), 100);
                }
            }
        }
        (stood_for, time_on as f64 / (seconds * 100) as f64)
    }

    #[test]
    fn few_faults_are_all_looked_at() {
        let (stood_for, on) = run(30_000, 10);
        assert_eq!((stood_for, on), (300_000, 1.0));
    }

    #[test]
    fn records_of_windows_stand_for_the_pauses_too() {
        for rate in [200_000, 500_000, 2_000_000] {
            let (stood_for, on) = run(rate, 100);
            let all = (rate * 100) as f64;
            assert!((stood_for as f64 / all - 1.0).abs() < 0.05, "{rate}: {stood_for} of {all}");
            let slower = rate as f64 * COST * on;
            assert!(
                slower < 1.2 * ALLOWED.max(rate as f64 * COST / MOST_FACTOR as f64),
                "{slower}"
            );
        }
    }

    #[test]
    fn a_record_behind_the_end_of_a_window_counts_for_nothing() {
        let mut windows = FaultWindows::new();
        let unread = || unreachable!("no fault was told yet");
        assert_eq!(windows.switch(Nanos(20 * MILLISECOND), unread), None);
        assert_eq!(windows.weight(Nanos(0), FIRST), FIRST);
        assert_eq!(windows.switch(Nanos(20 * MILLISECOND), || FIRST), None);
        assert_eq!(windows.switch(Nanos(40 * MILLISECOND), || 2 * FIRST), Some(Counting::Off));
        let weights = [10, 30, 50].map(|at| windows.weight(Nanos(at * MILLISECOND), 5));
        assert_eq!(weights, [5, 5 * MOST_FACTOR, 0]);
        assert!(windows.has_paused());
    }

    #[test]
    fn windows_are_long_beside_what_switching_takes() {
        let mut windows = FaultWindows::new();
        assert_eq!(windows.due(), None);
        windows.weight(Nanos(0), FIRST);
        assert_eq!(windows.switch(Nanos(20 * MILLISECOND), || FIRST), None);
        assert_eq!(windows.due(), Some(Nanos(20 * MILLISECOND) + LEAST));
        windows.switched(Nanos(MILLISECOND));
        assert_eq!(windows.due(), Some(Nanos((20 + SWITCHES) * MILLISECOND)));
        assert_eq!(windows.switch(Nanos(60 * MILLISECOND), || 2 * FIRST), None);
    }
}
