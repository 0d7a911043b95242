//! Single observations in a span of time, each with its thread, its CPU and its stack: samples, page faults, waits, bursts; and the
//! passes of threads through marked regions.
//!
//! What for: a timeline that shows each of them when one looks closely. Where there are more samples than were asked for, they are
//! sums per thread, CPU and bin instead; other kinds are then left out, and counted. What not: sums over stacks (`stack_cells`).
//! Assumption: a sample represents the time before it, as long as its weight.

use std::collections::BTreeMap;

use base::{CpuId, Nanos};
use facts::{BurstFlavour, FaultKind, MarkedPass, Privilege};

use crate::profile::Profile;
use crate::selection::Selection;
use crate::stack::NodeIndex;
use crate::stack_cells::{StackTreeNode, Tree};
use crate::threading::{State, wait_rows};
use crate::threads::ThreadIndex;

/// Cells at most; bins are made as wide as that needs.
const MOST_CELLS: usize = 25_000;
/// Bins, if there is room for them: about one per two pixels of a screen.
const MOST_BINS: u64 = 512;

/// What happened when, to whom, where in the code.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Moment<T> {
    /// When it began.
    pub time: Nanos,
    /// How long it took; 0 of what has no length.
    pub length: Nanos,
    /// Whose.
    pub thread: ThreadIndex,
    /// Position of the innermost frame in the tree.
    pub node: u32,
    /// What else is known.
    pub what: T,
}

/// A sample of the CPU time before its end.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SampleMoment {
    /// Where it ran, if the source tells it.
    pub cpu: Option<CpuId>,
    /// In the kernel.
    pub kernel: bool,
}

/// A record of page faults.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FaultMoment {
    /// How many faults it represents.
    pub weight: u64,
    /// Whether they waited for I/O.
    pub major: bool,
}

/// CPU time of a thread on a CPU in a bin.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct BusyCell {
    /// Who.
    pub thread: ThreadIndex,
    /// Where, if known.
    pub cpu: Option<CpuId>,
    /// Number of the bin, from the start of the span.
    pub bin: u32,
    /// In the kernel.
    pub kernel: bool,
    /// Nanoseconds of samples.
    pub amount: u64,
}

/// All of one kind, or how many there are where these are too many.
#[derive(Clone, PartialEq, Debug)]
pub struct Moments<T> {
    /// How many lie in the span.
    pub count: usize,
    /// Each of them in the order of time; empty where they are too many.
    pub each: Vec<Moment<T>>,
}

/// Passes of a thread through a marked region, of which neighbours are one row where there are too many.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PassMoment {
    /// When the first began.
    pub time: Nanos,
    /// When the last ended.
    pub end: Nanos,
    /// Whose.
    pub thread: ThreadIndex,
    /// The region's number.
    pub region: u32,
    /// Regions around it.
    pub depth: u32,
    /// How many ended.
    pub passes: u64,
    /// Time in them.
    pub inside: Nanos,
}

/// What happened in a span of time.
#[derive(Clone, PartialEq, Debug)]
pub struct Close {
    /// Start of the span.
    pub start: Nanos,
    /// Its end.
    pub end: Nanos,
    /// The frames, parents before children.
    pub nodes: Vec<StackTreeNode>,
    /// Samples of the CPU clock.
    pub samples: Moments<SampleMoment>,
    /// Records of page faults.
    pub faults: Moments<FaultMoment>,
    /// Waits that the collector kept one by one.
    pub waits: Moments<State>,
    /// Waits that it kept as sums of several.
    pub merged_waits: u64,
    /// Bursts of translated code.
    pub bursts: Moments<BurstFlavour>,
    /// Passes through marked regions, by thread and region, each in the order of time.
    pub passes: Vec<PassMoment>,
    /// Length of a bin.
    pub bin: Nanos,
    /// Sums of the samples; only where these are too many.
    pub cells: Vec<BusyCell>,
}

/// Gathers what happened in the selected time and threads, at most `most` of each kind.
#[must_use]
pub fn close(profile: &Profile<'_>, selection: &Selection, most: usize) -> Close {
    let elapsed = profile.elapsed();
    let (start, end) = selection.time().unwrap_or((Nanos(0), elapsed));
    let (start, end) = (start.min(elapsed), end.min(elapsed));
    let mut tree = Tree::default();
    let samples = samples(profile, (start, end), selection);
    let (bin, cells) = match samples.len() > most {
        true => cells(&samples, start, end),
        false => (Nanos(0), Vec::new()),
    };
    let samples = kept(profile, &mut tree, samples, most);
    let faults = kept(profile, &mut tree, faults(profile, (start, end), selection), most);
    let (waits, merged_waits) = waits(profile, (start, end), selection);
    let waits = kept(profile, &mut tree, waits, most);
    let bursts = kept(profile, &mut tree, bursts(profile, (start, end), selection), most);
    Close {
        start,
        end,
        nodes: tree.nodes,
        samples,
        faults,
        waits,
        merged_waits,
        bursts,
        passes: passes(profile, (start, end), selection, most),
        bin,
        cells,
    }
}

/// A moment before its stack is a part of the tree.
type Found<T> = (Moment<T>, Option<NodeIndex>);

fn kept<T>(
    profile: &Profile<'_>,
    tree: &mut Tree,
    found: Vec<Found<T>>,
    most: usize,
) -> Moments<T> {
    let count = found.len();
    if count > most {
        return Moments { count, each: Vec::new() };
    }
    let mut each: Vec<Moment<T>> = found
        .into_iter()
        .map(|(moment, stack)| Moment { node: tree.node(profile, stack), ..moment })
        .collect();
    each.sort_by_key(|moment| (moment.time, moment.thread));
    Moments { count, each }
}

/// Whether a part of `[time, time + length]` lies in the span.
fn touches((start, end): (Nanos, Nanos), time: Nanos, length: Nanos) -> bool {
    time <= end && time + length >= start
}

fn samples(
    profile: &Profile<'_>,
    span: (Nanos, Nanos),
    selection: &Selection,
) -> Vec<Found<SampleMoment>> {
    let of = |sample: &facts::Sample| {
        let thread = profile.threads.find(sample.pid, sample.tid)?;
        let length = sample.weight.min(sample.time);
        let time = sample.time - length;
        let what = SampleMoment { cpu: sample.cpu, kernel: sample.privilege == Privilege::Kernel };
        (selection.has_thread(thread)
            && touches(span, time, length)
            && selection.in_region(thread, sample.time))
        .then(|| {
            let stack = sample.stack.and_then(|id| profile.stacks.find(id));
            (Moment { time, length, thread, node: 0, what }, stack)
        })
    };
    profile.recording.samples.iter().filter_map(of).collect()
}

fn faults(
    profile: &Profile<'_>,
    span: (Nanos, Nanos),
    selection: &Selection,
) -> Vec<Found<FaultMoment>> {
    let of = |fault: &facts::Fault| {
        let thread = profile.threads.find(fault.pid, fault.tid)?;
        let what = FaultMoment { weight: fault.weight, major: fault.kind == FaultKind::Major };
        (selection.has_thread(thread)
            && touches(span, fault.time, Nanos(0))
            && selection.in_region(thread, fault.time))
        .then(|| {
            let stack = fault.stack.and_then(|id| profile.stacks.find(id));
            (Moment { time: fault.time, length: Nanos(0), thread, node: 0, what }, stack)
        })
    };
    profile.recording.faults.iter().filter_map(of).collect()
}

/// Single waits, and how many there are in sums of several.
fn waits(
    profile: &Profile<'_>,
    span: (Nanos, Nanos),
    selection: &Selection,
) -> (Vec<Found<State>>, u64) {
    let mut found = Vec::new();
    let mut merged = 0u64;
    for row in wait_rows(profile, selection) {
        let wait = row.wait;
        if wait.waits != 1 {
            merged = merged.saturating_add(wait.waits);
        } else if touches(span, wait.time, wait.waited) {
            let what = row.blocked.map_or(State::Ready, |blocked| State::of(blocked.reason));
            let stack = wait.stack.and_then(|id| profile.stacks.find(id));
            let (time, length, thread) = (wait.time, wait.waited, row.thread);
            found.push((Moment { time, length, thread, node: 0, what }, stack));
        }
    }
    (found, merged)
}

fn bursts(
    profile: &Profile<'_>,
    span: (Nanos, Nanos),
    selection: &Selection,
) -> Vec<Found<BurstFlavour>> {
    let of = |burst: &facts::Burst| {
        let thread = profile.threads.find(burst.pid, burst.tid)?;
        let (time, length, what) = (burst.time, burst.elapsed, burst.flavour);
        (selection.has_thread(thread)
            && touches(span, time, length)
            && selection.in_region(thread, time))
        .then_some((Moment { time, length, thread, node: 0, what }, None))
    };
    profile.recording.bursts.iter().filter_map(of).collect()
}

/// At most `most` rows: neighbours become one, nearer ones first, and say how many passes they are and how long these took.
fn passes(
    profile: &Profile<'_>,
    span: (Nanos, Nanos),
    selection: &Selection,
    most: usize,
) -> Vec<PassMoment> {
    let of = |pass: &MarkedPass| {
        let thread = profile.threads.find(pass.pid, pass.tid)?;
        let MarkedPass { time, region, depth, passes, inside, .. } = *pass;
        (selection.has_thread(thread) && touches(span, time, pass.span)).then_some(PassMoment {
            time,
            end: time + pass.span,
            thread,
            region,
            depth,
            passes,
            inside,
        })
    };
    let mut found: Vec<PassMoment> =
        profile.recording.marked_passes.iter().filter_map(of).collect();
    // One region may be around itself: each level is a row of neighbours.
    found.sort_by_key(|one| (one.thread, one.region, one.depth, one.time, one.end));
    let mut room = Nanos(((span.1 - span.0).0 / 2000).max(1));
    while found.len() > most {
        let before = std::mem::take(&mut found);
        for one in before {
            match found.last_mut() {
                Some(last)
                    if (last.thread, last.region, last.depth)
                        == (one.thread, one.region, one.depth)
                        && one.end - last.time <= room =>
                {
                    last.end = last.end.max(one.end);
                    last.passes = last.passes.saturating_add(one.passes);
                    last.inside += one.inside;
                }
                _ => found.push(one),
            }
        }
        // A row for each thread and region is the least that there can be.
        if room > span.1 {
            break;
        }
        room = Nanos(room.0.saturating_mul(2));
    }
    found
}

/// Sums of samples in bins as narrow as the bound allows. A sample is divided among the bins that it lies in.
fn cells(samples: &[Found<SampleMoment>], start: Nanos, end: Nanos) -> (Nanos, Vec<BusyCell>) {
    let mut bins = MOST_BINS;
    loop {
        let bin = Nanos((end - start).0.div_ceil(bins).max(1));
        let mut sums: BTreeMap<(ThreadIndex, Option<CpuId>, u32, bool), u64> = BTreeMap::new();
        for (sample, _) in samples {
            let (from, to) = (sample.time.max(start), (sample.time + sample.length).min(end));
            let mut at = from;
            while at < to {
                let number = (at - start).0 / bin.0;
                let next = Nanos(start.0 + (number + 1) * bin.0).min(to);
                let number = u32::try_from(number).unwrap_or(u32::MAX);
                let key = (sample.thread, sample.what.cpu, number, sample.what.kernel);
                *sums.entry(key).or_default() += (next - at).0;
                at = next;
            }
        }
        if sums.len() <= MOST_CELLS || bins == 1 {
            let cell = |((thread, cpu, bin, kernel), amount)| BusyCell {
                thread,
                cpu,
                bin,
                kernel,
                amount,
            };
            return (bin, sums.into_iter().map(cell).collect());
        }
        bins /= 2;
    }
}

#[cfg(test)]
mod tests {
    use base::{Pid, Tid};
    use facts::{Recording, Sample};

    use super::*;

    #[test]
    fn passes_that_are_too_many_become_sums_that_keep_their_time() {
        let pass = |at: u64| MarkedPass {
            time: Nanos(at * 1000),
            span: Nanos(600),
            region: (at % 2) as u32,
            pid: Pid(1),
            tid: Tid(1),
            passes: 1,
            inside: Nanos(600),
            ..MarkedPass::default()
        };
        let sample = Sample {
            time: Nanos(1000),
            pid: Pid(1),
            tid: Tid(1),
            cpu: None,
            weight: Nanos(1000),
            stack: None,
            privilege: Privilege::User,
        };
        let mut recording = Recording {
            samples: vec![sample],
            marked_passes: (0..1000).map(pass).collect(),
            ..Recording::default()
        };
        recording.run.elapsed_ns = 1_000_000;
        let profile = Profile::new(&recording);
        let all = close(&profile, &Selection::default(), 1000).passes;
        assert_eq!(all.len(), 1000);
        assert!(all.iter().all(|one| one.passes == 1 && (one.end - one.time).0 == 600));
        let few = close(&profile, &Selection::default(), 100).passes;
        assert!((2..=100).contains(&few.len()), "{}", few.len());
        for region in [0, 1] {
            let of = || few.iter().filter(|one| one.region == region);
            assert_eq!(of().map(|one| one.passes).sum::<u64>(), 500);
            assert_eq!(of().map(|one| one.inside.0).sum::<u64>(), 500 * 600);
            assert!(of().zip(of().skip(1)).all(|(one, next)| one.end <= next.time));
        }
    }
}
