//! The flavour, length and cost of the next burst.
//!
//! What for: three flavours and two lengths. A trace records addresses; it slows irregular code down. A count window
//! of the same thread right after it gives the native speed of the same code. Timed loads give the latency of single
//! loads. Long traces observe reuse over a longer time. Brief ones cost little, so there are many: they observe which
//! code runs on which data, and when. What not: the rate of bursts (`budget`), the choice of a thread (`picker`).
//!
//! ```text
//! brief and long turns as the budget has it; the long ones: four times trace + count, timed, and so on
//! ```

use std::time::Duration;

use base::Nanos;
use facts::{BurstEnd, BurstFlavour};

use crate::drain::Tally;
use crate::run::Allowance;
use crate::space::RECORD_BYTES;

/// A count window follows each trace. After traces that their records did not slow down, only every eighth has one: a
/// tight loop takes up to three times as long with a counter, and its trace already gives its pace.
const TRACES_PER_COUNT: u32 = 1;
const QUICK_TRACES_PER_COUNT: u32 = 8;
/// Windows that look for new code behind a trace that met too much of it, at most.
const EXPLORING: u32 = 4;
/// So many pieces of new code in a trace are too much of it: what a brief one may stop for.
const MUCH_NEW: u32 = 16;
/// Timed loads follow every fourth trace.
const TRACES_PER_TIMED: u32 = 4;

/// A brief trace ends with so many bytes of records, of which a quarter is room for the largest one: 6,000 of two words, some 12
/// us of slow-down and 0.1 ms to encode them. Of a loop whose pace is known natively they tell what an iteration does.
pub const BRIEF_BYTES: usize = 128 << 10;

/// A brief burst has this part of a long one's time: a summarised loop goes through 300,000 lines in a millisecond,
/// all of which a report has to process.
const BRIEF_PART: u32 = 3;

/// Blocks translated in advance per stop for new code where code counts or times: these are basic blocks, and a window that is
/// stopped often shows no rate. A trace's blocks are longer: a stop of 40 to 60 us and 30 to 60 us for its block is less than
/// what blocks in advance cost, of which the thread came to a fifth to a half.
const AHEAD: usize = 16;

/// A trace that was slowed down by less than one part in so many ran at native speed.
const FEW: u64 = 50;

/// How much a burst may record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Length {
    /// One trace of few records. Summarised loops have almost none: of these it sees a third of what a long one sees.
    /// Of other code it shows what is done, and the count window after it how fast.
    Brief,
    /// The flavour that is next, at its full length.
    Long,
}

/// The sequence of bursts of one process.
#[derive(Debug, Default)]
pub struct Schedule {
    traces: u32,
    timed_is_due: bool,
    /// Windows to come that only look for new code.
    exploring: u32,
}

impl Schedule {
    /// What the next burst is for.
    #[must_use]
    pub fn next(&self) -> BurstFlavour {
        if self.timed_is_due { BurstFlavour::Timed } else { BurstFlavour::Trace }
    }

    /// Notes a trace, slowed down by its records or not; returns whether a count window follows at once.
    pub fn note_trace(&mut self, is_slowed: bool) -> bool {
        self.traces = self.traces.wrapping_add(1);
        self.timed_is_due = self.traces.is_multiple_of(TRACES_PER_TIMED);
        self.traces.is_multiple_of(if is_slowed {
            TRACES_PER_COUNT
        } else {
            QUICK_TRACES_PER_COUNT
        })
    }

    /// Whether the next visit only looks for new code. A window does so at a third of what it costs a trace, which then finds the code
    /// that it came to translated.
    pub fn explores(&mut self) -> bool {
        let explores = self.exploring > 0;
        self.exploring = self.exploring.saturating_sub(1);
        explores
    }

    /// Notes how a burst ended, which came to so many pieces of new code.
    pub fn note_end(&mut self, flavour: BurstFlavour, end: BurstEnd, new_code: u32) {
        match (flavour, end) {
            // With fewer, its time was over.
            (BurstFlavour::Trace, BurstEnd::Untranslated) if new_code >= MUCH_NEW => {
                self.exploring = EXPLORING;
            }
            (BurstFlavour::Count, BurstEnd::Time) => self.exploring = 0,
            _ => {}
        }
    }

    /// Notes that timed loads had their turn, successful or not.
    pub fn note_timed(&mut self) {
        self.timed_is_due = false;
    }
}

/// The limits of a burst; `longest` is the time of a trace. Count windows and timed loads are shorter, because
/// counters take up to half of a window's time and timed loads nearly all of theirs.
#[must_use]
pub fn allowance(flavour: BurstFlavour, longest: Duration, length: Length) -> Allowance {
    let (time, misses) = match flavour {
        // What such a trace comes to is mostly met again by windows, for less.
        BurstFlavour::Trace if length == Length::Brief => (longest / BRIEF_PART, MUCH_NEW),
        BurstFlavour::Trace => (longest, 64),
        // Code that is stopped this often does not run at its native rate.
        BurstFlavour::Count if length == Length::Brief => (longest / BRIEF_PART, 16),
        BurstFlavour::Count | BurstFlavour::Sparse => (longest * 2 / 3, 16),
        BurstFlavour::Timed => (longest / 3, 64),
    };
    let bytes = match length {
        Length::Brief => BRIEF_BYTES,
        Length::Long => RECORD_BYTES / 4 * 3,
    };
    Allowance {
        time,
        counts: flavour == BurstFlavour::Count,
        bytes,
        misses,
        ahead: if flavour == BurstFlavour::Trace { 0 } else { AHEAD },
        listens: false,
        tick: 0.0,
        is_empty: false,
        stays: false,
    }
}

/// Whether a trace was slowed down by its records: how much by them, and how long it ran.
#[must_use]
pub fn is_slow(slowdown: Nanos, ran: Nanos) -> bool {
    slowdown.0.saturating_mul(FEW) >= ran.0
}

/// The same while its thread stands still: to count the records of these words would take longer.
#[must_use]
pub fn looks_slow(words: usize, ran: Nanos) -> bool {
    /// A record's, in irregular code.
    const WORDS: u64 = 2;
    let tally = Tally { runs: words as u64 / WORDS, ..Tally::default() };
    is_slow(slowdown(BurstFlavour::Trace, &tally, ran), ran)
}

/// Estimates how much longer a burst took than natively, at most all of `time`.
#[must_use]
pub fn slowdown(flavour: BurstFlavour, tally: &Tally, time: Nanos) -> Nanos {
    // A record costs the thread 1 to 2.5 ns on the machine of `bench/results` (burst_inside). Summarised loops have
    // few records and no slow-down. A counter takes 0.3 to 0.7 ns in a block that takes 1 to 2 ns, and nothing in a
    // block that waits for memory; the tightest loop, of 0.35 ns, takes three times as long.
    let (tenths, most) = match flavour {
        BurstFlavour::Trace => (20, time),
        BurstFlavour::Count => (7, Nanos(time.0 / 4 * 3)),
        BurstFlavour::Sparse => (7, time),
        BurstFlavour::Timed => (600, time),
    };
    Nanos(tally.runs.saturating_mul(tenths) / 10).min(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_flavours_have_their_turns() {
        let mut schedule = Schedule::default();
        let mut turns = Vec::new();
        for _ in 0..10 {
            match schedule.next() {
                BurstFlavour::Trace if schedule.note_trace(true) => turns.push("trace + count"),
                BurstFlavour::Trace => turns.push("trace"),
                _ => {
                    schedule.note_timed();
                    turns.push("timed");
                }
            }
        }
        let count = "trace + count";
        let round = [count, count, count, count, "timed"];
        assert_eq!(turns, [round, round].concat());
    }

    #[test]
    fn windows_look_for_code_behind_a_trace_that_met_too_much() {
        let mut schedule = Schedule::default();
        assert!(!schedule.explores());
        let mut ended = |flavour, end, new_code| {
            schedule.note_end(flavour, end, new_code);
            (0..10).take_while(|_| schedule.explores()).count()
        };
        assert_eq!(ended(BurstFlavour::Trace, BurstEnd::Untranslated, 17), EXPLORING as usize);
        assert_eq!(ended(BurstFlavour::Trace, BurstEnd::Full, 17), 0);
        assert_eq!(ended(BurstFlavour::Trace, BurstEnd::Untranslated, 3), 0, "its time was over");
        schedule.note_end(BurstFlavour::Trace, BurstEnd::Untranslated, 17);
        assert!(schedule.explores());
        schedule.note_end(BurstFlavour::Count, BurstEnd::Untranslated, 17);
        assert!(schedule.explores());
        schedule.note_end(BurstFlavour::Count, BurstEnd::Time, 1);
        assert!(!schedule.explores(), "a window met no new code");
    }

    #[test]
    fn a_trace_of_many_records_looks_slow() {
        // 6,000 records, of 2 ns each: 2 % of 0.6 ms.
        assert!(looks_slow(12_000, Nanos(600_000)) && !looks_slow(12_000, Nanos(601_000)));
        assert!(!looks_slow(0, Nanos(1)) && looks_slow(usize::MAX, Nanos(u64::MAX / 100)));
    }

    #[test]
    fn no_burst_is_slowed_by_more_than_it_took() {
        let tally = |runs| Tally { runs, ..Tally::default() };
        let flavours = [BurstFlavour::Trace, BurstFlavour::Count, BurstFlavour::Timed];
        for flavour in flavours {
            let most = if flavour == BurstFlavour::Count { 750 } else { 1000 };
            assert_eq!(slowdown(flavour, &tally(u64::MAX), Nanos(1000)), Nanos(most));
            assert_eq!(slowdown(flavour, &tally(0), Nanos(1000)), Nanos(0));
        }
        let longest = Duration::from_millis(3);
        let times = flavours.map(|flavour| allowance(flavour, longest, Length::Long).time);
        assert_eq!(times, [3, 2, 1].map(Duration::from_millis));
    }
}
