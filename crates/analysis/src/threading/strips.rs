//! What threads did over time, in equal bins.
//!
//! Assumption: within a row's span its time is spread evenly; a row is a single wait, or no longer than a window of the collector
//! (a thousandth of the time so far, 10 ms at least). What not: totals (`threading`).

use base::Nanos;

use super::{Reason, SpinTable, ThreadSplit, Threading, wait_rows};
use crate::profile::Profile;
use crate::selection::Selection;
use crate::threads::ThreadIndex;
use crate::timeline::bin_width;

/// What a thread does for most of a bin; reasons to wait in groups that a reader can distinguish at a glance.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum State {
    /// On a CPU, getting further.
    Running,
    /// On a CPU, waiting.
    Spinning,
    /// Waiting for a CPU.
    Ready,
    /// Waiting for a lock, condition or other futex.
    Lock,
    /// Waiting at a barrier, or for another thread's end.
    Barrier,
    /// Waiting for data.
    Io,
    /// Waiting for a time, or for another process.
    Sleep,
    /// Waiting for something else, or it is not known for what.
    Other,
}

impl State {
    /// All, in the order in which they are shown.
    pub const ALL: [State; 8] = [
        State::Running,
        State::Spinning,
        State::Ready,
        State::Lock,
        State::Barrier,
        State::Io,
        State::Sleep,
        State::Other,
    ];

    /// Its name for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            State::Running => "running",
            State::Spinning => "spinning",
            State::Ready => "waiting for a CPU",
            State::Lock => "lock",
            State::Barrier => "barrier or thread",
            State::Io => "data",
            State::Sleep => "sleep",
            State::Other => "other",
        }
    }

    /// The group of a reason to wait.
    #[must_use]
    pub fn of(reason: Reason) -> State {
        match reason {
            Reason::Lock | Reason::Condition | Reason::Futex => State::Lock,
            Reason::Barrier | Reason::Mpi | Reason::Join => State::Barrier,
            Reason::Io | Reason::Poll => State::Io,
            Reason::Sleep | Reason::Child => State::Sleep,
            Reason::Fault | Reason::Other | Reason::Unknown => State::Other,
        }
    }
}

/// A bin of a thread: nanoseconds per state.
pub type Bin = [f64; State::ALL.len()];

/// A thread over time.
#[derive(Clone, PartialEq, Debug)]
pub struct Strip {
    /// Whose.
    pub thread: ThreadIndex,
    /// Its bins.
    pub bins: Vec<Bin>,
}

/// All threads over time.
#[derive(Clone, PartialEq, Debug)]
pub struct Strips {
    /// Beginning of the first bin.
    pub start: Nanos,
    /// End of the last one.
    pub end: Nanos,
    /// Length of a bin; the last may be shorter.
    pub width: Nanos,
    /// The selected threads, in the order of the profile's table.
    pub strips: Vec<Strip>,
}

impl Strips {
    /// How many bins there are.
    #[must_use]
    pub fn count(&self) -> usize {
        (self.end - self.start).0.div_ceil(self.width.0) as usize
    }

    fn spread(&self, bins: &mut [Bin], state: State, (time, span): (Nanos, Nanos), amount: f64) {
        let end = self.end.min(time + span);
        let from = time.max(self.start);
        if end <= from && span.0 > 0 || bins.is_empty() {
            return;
        }
        let index = |time: Nanos| ((time - self.start).0 / self.width.0) as usize;
        let last = index(Nanos(end.0.saturating_sub(1))).min(bins.len() - 1);
        for (at, bin) in bins.iter_mut().enumerate().take(last + 1).skip(index(from).min(last)) {
            let start = Nanos(self.start.0 + at as u64 * self.width.0);
            let overlap = end.min(start + self.width) - from.max(start);
            let share = if span.0 == 0 { 1.0 } else { overlap.0 as f64 / span.0 as f64 };
            bin[state as usize] += amount * share;
        }
    }
}

/// Cuts the selected time into at most `most` bins. `found` is of the same selection.
#[must_use]
pub fn strips(
    profile: &Profile<'_>,
    selection: &Selection,
    found: &Threading,
    most: usize,
) -> Strips {
    let elapsed = profile.elapsed();
    let (start, end) = selection.time().unwrap_or((Nanos(0), elapsed));
    let (start, end) = (start.min(elapsed), end.min(elapsed));
    let mut all =
        Strips { start, end, width: bin_width(end - start, most, Nanos(0)), strips: Vec::new() };
    let count = all.count();
    let there = |lived: f64| if lived > 0.0 { vec![Bin::default(); count] } else { Vec::new() };
    let mut bins: Vec<Vec<Bin>> = found.threads.iter().map(|split| there(split.lived)).collect();
    for row in &profile.recording.thread_times {
        if let Some(thread) = profile.threads.find(row.pid, row.tid) {
            for (when, running) in parts(selection, thread, (row.time, row.span), row.running) {
                all.spread(&mut bins[thread.index()], State::Running, when, running);
            }
        }
    }
    for row in wait_rows(profile, selection) {
        let (wait, at) = (row.wait, row.thread.index());
        // Here each wait stays where it was in time; one without a stack is divided like those that have one.
        for (when, amount) in parts(selection, row.thread, (wait.time, wait.span), wait.waited) {
            if let Some(like) = row.like {
                let sum: f64 = like.iter().sum();
                let parts = Reason::ALL.into_iter().zip(like).filter(|(_, part)| *part > 0.0);
                for (reason, part) in parts {
                    all.spread(&mut bins[at], State::of(reason), when, amount * part / sum);
                }
            } else {
                let state = row.blocked.map_or(State::Ready, |blocked| State::of(blocked.reason));
                all.spread(&mut bins[at], state, when, amount);
            }
        }
    }
    for (split, bins) in found.threads.iter().zip(&mut bins) {
        take_ready_off(split, bins);
    }
    spin(profile, selection, &all, (found, &mut bins));
    for (at, bins) in bins.into_iter().enumerate().filter(|(_, bins)| !bins.is_empty()) {
        all.strips.push(Strip { thread: ThreadIndex::new(at), bins });
    }
    all
}

/// The parts of a span that regions let in, each as a span with its part of an amount of time.
fn parts(
    selection: &Selection,
    thread: ThreadIndex,
    (time, span): (Nanos, Nanos),
    amount: Nanos,
) -> Vec<((Nanos, Nanos), f64)> {
    if !selection.chooses_regions() || span.0 == 0 {
        return vec![((time, span), amount.0 as f64)];
    }
    let parts = selection.parts(thread, time, time + span).into_iter().map(|(from, to)| {
        ((from, to - from), amount.0 as f64 * (to - from).0 as f64 / span.0 as f64)
    });
    parts.collect()
}

/// Moves a part of each bin's waits to `Ready`, in proportion: as much as [`Threading`] states for all waits together, because
/// it is unknown which of them ended with a wait for a CPU.
fn take_ready_off(split: &ThreadSplit, bins: &mut [Bin]) {
    let waits = State::Lock as usize..State::ALL.len();
    let drawn: f64 = bins.iter().flat_map(|bin| &bin[waits.clone()]).sum();
    let kept = if drawn > 0.0 { (split.waited() / drawn).min(1.0) } else { 1.0 };
    for bin in bins {
        for at in waits.clone() {
            let ready = bin[at] * (1.0 - kept);
            bin[at] -= ready;
            bin[State::Ready as usize] += ready;
        }
    }
}

/// Divides what threads ran in a bin by their samples in it, so that all bins have what [`Threading`] says.
fn spin(
    profile: &Profile<'_>,
    selection: &Selection,
    all: &Strips,
    (found, bins): (&Threading, &mut [Vec<Bin>]),
) {
    let count = all.count();
    let mut samples = vec![vec![(0.0, 0.0); count]; bins.len()];
    let mut table = SpinTable::new(&profile.stacks);
    for sample in &profile.recording.samples {
        let Some(thread) = profile.threads.find(sample.pid, sample.tid) else { continue };
        if !selection.has(thread, sample.time) || count == 0 {
            continue;
        }
        let stack = sample.stack.and_then(|id| profile.stacks.find(id));
        let spins = table.spins(stack);
        // A sample represents the time before it.
        let bin = ((sample.time - all.start).0.saturating_sub(1) / all.width.0) as usize;
        let sums = &mut samples[thread.index()][bin.min(count - 1)];
        sums.0 += sample.weight.0 as f64;
        sums.1 += if spins { sample.weight.0 as f64 } else { 0.0 };
    }
    for ((split, bins), samples) in found.threads.iter().zip(bins).zip(samples) {
        let part = |(bin, (sampled, spinning)): (&Bin, &(f64, f64))| {
            if *sampled > 0.0 { bin[State::Running as usize] * spinning / sampled } else { 0.0 }
        };
        let spinning: Vec<f64> = bins.iter().zip(&samples).map(part).collect();
        let drawn: f64 = spinning.iter().sum();
        let factor = if drawn > 0.0 { split.spinning / drawn } else { 0.0 };
        for (bin, spinning) in bins.iter_mut().zip(spinning) {
            let moved = (spinning * factor).min(bin[State::Running as usize]);
            bin[State::Spinning as usize] += moved;
            bin[State::Running as usize] -= moved;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_spread_over_the_bins_it_touches() {
        let all =
            Strips { start: Nanos(100), end: Nanos(400), width: Nanos(100), strips: Vec::new() };
        let mut bins = vec![Bin::default(); all.count()];
        all.spread(&mut bins, State::Io, (Nanos(50), Nanos(200)), 200.0);
        all.spread(&mut bins, State::Io, (Nanos(390), Nanos(100)), 100.0);
        all.spread(&mut bins, State::Lock, (Nanos(0), Nanos(50)), 50.0);
        let of = |state| bins.iter().map(|bin| bin[state as usize]).collect::<Vec<_>>();
        assert_eq!(of(State::Io), [100.0, 50.0, 10.0]);
        assert_eq!(of(State::Lock), [0.0; 3]);
    }
}
