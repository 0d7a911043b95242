//! The recording divided into equal bins of time.
//!
//! A bin's CPU time is the sum of its samples' periods, scaled to the counted total. A period belongs to the bin in which it ends,
//! so a bin is off by up to one period per thread. What not: traffic over time (`memory::bandwidth`).

use std::collections::BTreeMap;

use base::{Nanos, Pid};
use facts::{GaugeKind, Privilege};

use crate::faults::FaultSums;
use crate::profile::Profile;
use crate::selection::Selection;
use crate::threads::ThreadIndex;
use crate::weight::Weight;

/// More bins than anyone can look at; a bound on memory.
const MAX_BINS: u64 = 10_000;

/// A thread that runs all the time has at least this many samples in a bin; with fewer, bins alias with the sampling clock.
const SAMPLES_PER_BIN: u64 = 10;
/// A damaged period must not make one bin of everything.
const LARGEST_LEAST: Nanos = Nanos(1_000_000_000);

/// What happened in one bin.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Bin {
    /// Start, from the start of the recording.
    pub start: Nanos,
    /// End; the last bin may be shorter than the others.
    pub end: Nanos,
    /// Whose, when split by thread.
    pub thread: Option<ThreadIndex>,
    /// CPU time in the program.
    pub user: Weight,
    /// CPU time in the kernel.
    pub kernel: Weight,
    /// Page faults.
    pub faults: FaultSums,
    /// How much of the bin was observed.
    pub observed: Nanos,
    /// Largest sum of the processes' resident memory, bytes; `None` when it was not polled, or split by thread.
    pub resident_bytes: Option<u64>,
}

/// The bins, in the order of time (and of threads within a bin).
#[derive(Clone, PartialEq, Debug)]
pub struct Timeline {
    /// Length of a full bin.
    pub width: Nanos,
    /// The bins. Without threads every bin is there; split by thread only those in which something happened.
    pub bins: Vec<Bin>,
}

/// Bin width: the smallest of 1, 2 or 5 times a power of ten nanoseconds that needs at most `most` bins and is not
/// below `least`.
#[must_use]
pub fn bin_width(length: Nanos, most: usize, least: Nanos) -> Nanos {
    let most = (most.max(1) as u64).min(MAX_BINS);
    let mut decade = 1u64;
    loop {
        for step in [1, 2, 5] {
            let width = decade.saturating_mul(step);
            if width >= least.0 && length.0.div_ceil(width) <= most {
                return Nanos(width);
            }
        }
        decade = decade.saturating_mul(10);
    }
}

/// Cuts the selected time into at most `most` bins; a filter on frames keeps samples with such a frame anywhere on
/// their stack.
#[must_use]
pub fn timeline(
    profile: &Profile<'_>,
    selection: &Selection,
    most: usize,
    per_thread: bool,
) -> Timeline {
    let elapsed = profile.elapsed();
    let (start, end) = selection.time().unwrap_or((Nanos(0), elapsed));
    let (start, end) = (start.min(elapsed), end.min(elapsed));
    let period = Nanos(profile.recording.run.collector.sampling_period_ns);
    let least = Nanos(period.0.saturating_mul(SAMPLES_PER_BIN).min(LARGEST_LEAST.0));
    let width = bin_width(end - start, most, least);
    let count = (end - start).0.div_ceil(width.0);
    let mut bins = Bins { start, end, width, count, found: BTreeMap::new() };
    if !per_thread {
        (0..count).for_each(|bin| {
            bins.found.insert((bin, None), Bin::default());
        });
    }
    bins.add_samples(profile, selection, per_thread);
    bins.add_faults(profile, selection, per_thread);
    if !per_thread {
        bins.add_resident(profile, selection);
    }
    let place = |((bin, thread), found): ((u64, Option<ThreadIndex>), Bin)| {
        let from = Nanos(start.0 + bin * width.0);
        let to = (from + width).min(end);
        let observed = selection.observed_in(profile, from, to);
        Bin { start: from, end: to, thread, observed, ..found }
    };
    Timeline { width, bins: bins.found.into_iter().map(place).collect() }
}

/// The largest resident size of all processes together, bytes; `None` when it was not polled.
#[must_use]
pub fn largest_resident(profile: &Profile<'_>) -> Option<u64> {
    let end = profile.elapsed();
    let mut bins =
        Bins { start: Nanos(0), end, width: end.max(Nanos(1)), count: 1, found: BTreeMap::new() };
    bins.found.insert((0, None), Bin::default());
    bins.add_resident(profile, &Selection::default());
    bins.found.into_values().next().and_then(|bin| bin.resident_bytes)
}

struct Bins {
    start: Nanos,
    end: Nanos,
    width: Nanos,
    count: u64,
    found: BTreeMap<(u64, Option<ThreadIndex>), Bin>,
}

impl Bins {
    /// The bin of a time. Facts a little after the end (the clock is read last) go into the last bin.
    fn index(&self, time: Nanos) -> Option<u64> {
        if self.count == 0 || time < self.start {
            return None;
        }
        Some(((time - self.start).0 / self.width.0).min(self.count - 1))
    }

    fn at(&mut self, time: Nanos, thread: Option<ThreadIndex>) -> Option<&mut Bin> {
        let index = self.index(time)?;
        Some(self.found.entry((index, thread)).or_default())
    }

    fn add_samples(&mut self, profile: &Profile<'_>, selection: &Selection, per_thread: bool) {
        let everything = !selection.chooses_places();
        let mut chosen_stacks = std::collections::HashMap::new();
        for sample in &profile.recording.samples {
            let Some(thread) = profile.threads.find(sample.pid, sample.tid) else { continue };
            if !selection.has(thread, sample.time) {
                continue;
            }
            let mut has_place = || {
                *chosen_stacks.entry(sample.stack).or_insert_with(|| {
                    let stack = sample.stack.and_then(|id| profile.stacks.find(id));
                    profile.stacks.frames(stack).any(|place| selection.has_place(place))
                })
            };
            let chosen = everything || has_place();
            let Some(bin) = self.at(sample.time, per_thread.then_some(thread)) else { continue };
            if chosen {
                match sample.privilege {
                    Privilege::User => bin.user.add(sample.weight.0),
                    Privilege::Kernel => bin.kernel.add(sample.weight.0),
                }
            }
        }
    }

    fn add_faults(&mut self, profile: &Profile<'_>, selection: &Selection, per_thread: bool) {
        for fault in &profile.recording.faults {
            let Some(thread) = profile.threads.find(fault.pid, fault.tid) else { continue };
            let stack = fault.stack.and_then(|id| profile.stacks.find(id));
            let chosen = selection.has(thread, fault.time)
                && selection.has_place(profile.stacks.innermost_user(stack));
            if chosen && let Some(bin) = self.at(fault.time, per_thread.then_some(thread)) {
                bin.faults.add(fault.kind, fault.weight);
            }
        }
    }

    /// Every process's last known size counts until it is polled again; the bin shows the largest sum in it.
    fn add_resident(&mut self, profile: &Profile<'_>, selection: &Selection) {
        let mut polled: Vec<(Nanos, Pid, u64)> = profile
            .recording
            .gauges
            .iter()
            .filter(|gauge| {
                gauge.kind == GaugeKind::ResidentBytes
                    && chosen_process(profile, selection, gauge.pid)
            })
            .map(|gauge| (gauge.time, gauge.pid, gauge.value))
            .collect();
        polled.sort_unstable();
        let mut sizes: BTreeMap<Pid, u64> = BTreeMap::new();
        let mut polled = polled.into_iter().peekable();
        for index in 0..self.count {
            let last = index + 1 == self.count;
            let start = Nanos(self.start.0 + index * self.width.0);
            let end = (start + self.width).min(self.end);
            sizes.retain(|pid, _| !ended_before(profile, *pid, start));
            let mut largest = sum(&sizes);
            while let Some((_, pid, bytes)) = polled.next_if(|(time, _, _)| *time < end || last) {
                sizes.insert(pid, bytes);
                largest = largest.max(sum(&sizes));
            }
            // While nothing is observed, no size is known either.
            let is_seen = profile.observed_in(start, end) > Nanos(0);
            if let Some(bin) = self.found.get_mut(&(index, None)).filter(|_| is_seen) {
                bin.resident_bytes = largest;
            }
        }
    }
}

fn sum(sizes: &BTreeMap<Pid, u64>) -> Option<u64> {
    (!sizes.is_empty())
        .then(|| sizes.values().fold(0, |sum: u64, bytes| sum.saturating_add(*bytes)))
}

fn ended_before(profile: &Profile<'_>, pid: Pid, time: Nanos) -> bool {
    let first = profile.threads.find(pid, base::Tid(pid.0));
    first.is_some_and(|first| profile.threads.get(first).end < time)
}

/// Whether any thread of the process is selected.
fn chosen_process(profile: &Profile<'_>, selection: &Selection, pid: Pid) -> bool {
    let mut threads = profile.threads.all().iter().filter(|thread| thread.pid == pid).peekable();
    let unknown = threads.peek().is_none();
    let chosen = |thread: &crate::threads::Thread| {
        profile
            .threads
            .find(thread.pid, thread.tid)
            .is_some_and(|index| selection.has_thread(index))
    };
    unknown || threads.any(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_are_round_and_bounded() {
        let width = |nanos, most| bin_width(Nanos(nanos), most, Nanos(0)).0;
        assert_eq!(width(10_000_000_000, 60), 200_000_000);
        assert_eq!(width(60_000_000_000, 60), 1_000_000_000);
        assert_eq!(width(1, 60), 1);
        assert_eq!(width(0, 0), 1);
        assert_eq!(bin_width(Nanos(800_000), 50, Nanos(9_970_000)).0, 10_000_000);
        assert!(u64::MAX.div_ceil(width(u64::MAX, usize::MAX)) <= MAX_BINS);
    }
}
