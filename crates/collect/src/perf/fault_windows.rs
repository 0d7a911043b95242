//! When page faults are recorded, for a program that takes very many.
//!
//! What for: the kernel's software event costs a fault some 100 to 300 ns, sampled or only counted, whatever the rate
//! of samples: 100 where its data stay in the first-level cache, 300 after a page was zeroed (touch_pages in virtual
//! machines of 2 CPUs: 1.9 us alone and 8 to 10 % more on AMD Zen 5, 3.1 us and 10 to 13 % on Zen 3). At hundreds of
//! thousands of faults a second that is too much. The event of minor faults is then on for a part of the time only,
//! and a record in a window represents also the faults of the pause before the window, in proportion to its length.
//! The total is the kernel's own (getrusage).
//!
//! Windows are short and many, with some records each, so that several cover a program that touches its memory within
//! a tenth of a second. What not: switching the event (`mod`); major faults, each of which takes longer than anything
//! here.
//!
//! ```text
//!   all | pause | window: each record counts `factor` times | pause | window ...
//! ```
//! Pauses are drawn at random around their mean length, so that they do not coincide with the program's phases. The
//! window after a pause is a fixed share of the real length of the pause, however late we woke up. Records after the
//! end of a window, until we wake up, represent themselves only. So records never represent more time than passed,
//! and at the end only a part of one pause is missing.

use std::collections::VecDeque;

use base::Nanos;
use sys::perf::Counting;
use tracee::random::Random;

/// Least length of a window: enough for some samples.
const LEAST: Nanos = Nanos(4_000_000);
/// Least length of a window in times that switching the event took, which grows with the number of threads and CPUs.
const SWITCHES: u64 = 50;
/// The first faults, all of which are recorded: that takes the program some 10 ms. Most programs take no more.
const FIRST: u64 = 32_768;
/// The event's cost per fault, seconds: the largest value above.
pub(super) const COST: f64 = 300e-9;
/// The cost per fault while the event is off, because the kernel then searches for events that are on. From a profile
/// of the kernel under touch_pages.
pub(super) const COST_WHILE_OFF: f64 = 80e-9;
/// The part by which it may slow a program down.
const ALLOWED: f64 = 0.01;
/// Faults are recorded for at least one part in so many of the time.
const MOST_FACTOR: u64 = 10;

/// From a time on, each record of a fault counts this many times; 0 after the end of a window.
#[derive(Clone, Copy, Debug)]
struct Span {
    from: Nanos,
    factor: u64,
}

/// The current phase, and its end. Times are since the start of the recording.
#[derive(Clone, Copy, Debug)]
enum Phase {
    /// All faults are recorded; from a time on, at which `counted` had been counted.
    All { from: Nanos, counted: u64 },
    /// No faults are recorded; then each record will represent `factor`.
    Pause { from: Nanos, until: Nanos, factor: u64 },
    /// Faults are recorded; at its start `counted` had been counted.
    Window { from: Nanos, until: Nanos, counted: u64 },
}

/// Windows and pauses.
#[derive(Debug)]
pub(super) struct FaultWindows {
    spans: VecDeque<Span>,
    phase: Phase,
    /// Windows are mostly at least this long.
    least: Nanos,
    /// The number of faults at the last reading.
    counted: u64,
    has_paused: bool,
    /// Faults that records represented, before they were weighted.
    represented: u64,
    random: Random,
}

impl FaultWindows {
    pub(super) fn new() -> FaultWindows {
        FaultWindows {
            spans: VecDeque::from([Span { from: Nanos(0), factor: 1 }]),
            phase: Phase::All { from: Nanos(0), counted: 0 },
            least: LEAST,
            counted: 0,
            has_paused: false,
            represented: 0,
            random: Random::new(0xfa17),
        }
    }

    /// The number of faults that a record represents which stands for `faults` of the counted ones; 0 for one that
    /// other records represent. Records come in order of time.
    pub(super) fn weight(&mut self, time: Nanos, faults: u64) -> u64 {
        self.represented = self.represented.saturating_add(faults);
        while self.spans.get(1).is_some_and(|next| next.from <= time) {
            self.spans.pop_front();
        }
        self.spans.front().map_or(faults, |span| faults.saturating_mul(span.factor))
    }

    /// The recording goes on at `now` after a pause of its own; `counted` so far. All faults are recorded at first.
    pub(super) fn resumed(&mut self, now: Nanos, counted: u64) {
        self.spans.push_back(Span { from: now, factor: 1 });
        self.phase = Phase::All { from: now, counted };
    }

    /// Whether there has been a pause: then not all faults were counted.
    pub(super) fn has_paused(&self) -> bool {
        self.has_paused
    }

    /// When [`FaultWindows::switch`] is due next; `None` while all faults are recorded.
    pub(super) fn due(&self) -> Option<Nanos> {
        match self.phase {
            Phase::All { .. } => None,
            Phase::Pause { until, .. } | Phase::Window { until, .. } => Some(until),
        }
    }

    /// Notes how long switching the event took.
    pub(super) fn switched(&mut self, took: Nanos) {
        self.least = LEAST.max(Nanos(took.0.saturating_mul(SWITCHES)));
    }

    /// Returns whether the event must be switched at time `now`, and to what. `count` reads the number of faults
    /// counted so far.
    pub(super) fn switch(&mut self, now: Nanos, count: impl FnOnce() -> u64) -> Option<Counting> {
        let (from, before) = match self.phase {
            Phase::Pause { until, .. } | Phase::Window { until, .. } if now < until => return None,
            Phase::Pause { from, factor, .. } => {
                let until = now + Nanos((now - from).0 / (factor - 1));
                self.spans.push_back(Span { from: now, factor });
                self.spans.push_back(Span { from: until, factor: 1 });
                self.phase = Phase::Window { from: now, until, counted: self.counted };
                return Some(Counting::On);
            }
            // Reading a counter interrupts the CPU on which the program runs: avoid it for a program that takes few
            // faults.
            Phase::All { from, .. } if now - from < self.least || self.represented < FIRST / 2 => {
                return None;
            }
            Phase::All { from, counted } | Phase::Window { from, counted, .. } => (from, counted),
        };
        self.counted = count();
        let rate = self.counted.saturating_sub(before) as f64 / (now - from).seconds();
        let factor = ((rate * COST / ALLOWED).ceil() as u64).clamp(1, MOST_FACTOR);
        if self.counted < FIRST || factor == 1 {
            self.phase = Phase::All { from: now, counted: self.counted };
            return None;
        }
        let pause = self.random.around(Nanos(self.least.0.saturating_mul(factor - 1)));
        self.phase = Phase::Pause { from: now, until: now + pause, factor };
        self.has_paused = true;
        self.spans.push_back(Span { from: now, factor: 0 });
        Some(Counting::Off)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: u64 = 1_000_000;

    /// Faults at `rate` a second for `seconds`, a record for each 10 that the event sees, looked at every `interval`: how many
    /// faults the records stand for, and the share of the time in which the event was on.
    fn run(rate: u64, seconds: f64, interval: Nanos) -> (u64, f64) {
        let mut windows = FaultWindows::new();
        let (mut on, mut seen, mut stood_for, mut time_on) = (true, 0u64, 0u64, 0u64);
        // What is to come, in millionths of a fault.
        let (mut now, mut to_come) = (Nanos(0), 0);
        while now.seconds() < seconds {
            match windows.switch(now, || seen) {
                Some(Counting::On) => on = true,
                Some(Counting::Off) => on = false,
                None => {}
            }
            for at in 0..interval.0 / 10_000 {
                to_come += rate * 10;
                while to_come >= 10_000_000 {
                    to_come -= 10_000_000;
                    if on {
                        seen += 10;
                        stood_for += windows.weight(now + Nanos(at * 10_000), 10);
                    }
                }
            }
            time_on += if on { interval.0 } else { 0 };
            now += interval;
        }
        (stood_for, time_on as f64 / now.0 as f64)
    }

    #[test]
    fn few_faults_are_all_looked_at() {
        let (stood_for, on) = run(30_000, 10.0, Nanos(MILLISECOND));
        assert_eq!((stood_for, on), (300_000, 1.0));
    }

    #[test]
    fn records_of_windows_stand_for_the_pauses_too() {
        for rate in [200_000, 500_000, 2_000_000] {
            for interval in [Nanos(MILLISECOND / 2), Nanos(20 * MILLISECOND)] {
                let (stood_for, on) = run(rate, 100.0, interval);
                let all = (rate * 100) as f64;
                assert!(
                    (stood_for as f64 / all - 1.0).abs() < 0.07,
                    "{rate}: {stood_for} of {all}"
                );
                let slower = rate as f64 * COST * on;
                let allowed = ALLOWED.max(rate as f64 * COST / MOST_FACTOR as f64);
                // Who wakes up late leaves the event on for longer.
                assert!(interval > LEAST || slower < 1.5 * allowed, "{rate}: {slower}");
            }
        }
    }

    #[test]
    fn records_never_stand_for_more_than_passed() {
        for length in 100..180 {
            for interval in [Nanos(MILLISECOND), Nanos(17 * MILLISECOND)] {
                let seconds = f64::from(length) / 1000.0;
                let (stood_for, _) = run(320_000, seconds, interval);
                let all = 320_000.0 * (seconds + interval.seconds());
                assert!(stood_for as f64 <= all, "{seconds}: {stood_for} of {all}");
                assert!(stood_for as f64 >= 0.3 * all, "{seconds}: {stood_for} of {all}");
            }
        }
    }

    #[test]
    fn a_record_behind_the_end_of_a_window_stands_for_itself() {
        let mut windows = FaultWindows::new();
        let unread = || unreachable!("no fault was reported yet");
        assert_eq!(windows.switch(Nanos(20 * MILLISECOND), unread), None);
        assert_eq!(windows.weight(Nanos(0), FIRST), FIRST);
        assert_eq!(windows.switch(Nanos(20 * MILLISECOND), || FIRST), Some(Counting::Off));
        assert_eq!(windows.switch(Nanos(37 * MILLISECOND), unread), None);
        assert_eq!(windows.switch(Nanos(110 * MILLISECOND), unread), Some(Counting::On));
        let weights = [10, 30, 110, 119, 121].map(|at| windows.weight(Nanos(at * MILLISECOND), 5));
        assert_eq!(weights, [5, 0, 5 * MOST_FACTOR, 5 * MOST_FACTOR, 5]);
        assert!(windows.has_paused());
    }

    #[test]
    fn windows_are_long_compared_with_switching() {
        let mut windows = FaultWindows::new();
        assert_eq!(windows.due(), None);
        windows.weight(Nanos(0), FIRST);
        assert_eq!(windows.switch(Nanos(20 * MILLISECOND), || FIRST), Some(Counting::Off));
        windows.switched(Nanos(MILLISECOND));
        assert_eq!(windows.switch(Nanos(80 * MILLISECOND), || FIRST), Some(Counting::On));
        let end = Nanos(80 * MILLISECOND + 60 * MILLISECOND / (MOST_FACTOR - 1));
        assert_eq!(windows.due(), Some(end));
        assert_eq!(windows.switch(end, || 2 * FIRST), Some(Counting::Off));
        let pause = windows.due().expect("a pause") - end;
        assert!(pause.0 >= SWITCHES * MILLISECOND * (MOST_FACTOR - 1) / 2, "{pause:?}");
    }
}
