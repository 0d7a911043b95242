//! What threads did: ran, waited for a CPU, waited for something and for what, and how well that used the machine.
//!
//! ```text
//!   lifetime of a thread = running (of it: spinning) + ready + waiting, by reason + unknown
//! ```
//! Running and the time off the CPU are counted at every switch. *Ready* is the kernel's count of waiting for a CPU. Only
//! preemptions are known one by one, so the rest is deducted from all of the thread's waits in proportion. *Spinning* is the share
//! of its samples in functions that only wait, times its running time. Waits without a copied stack are divided like those of the
//! same thread and about the same length that have one. *Unknown* is the rest: records that were lost.
//!
//! What not: remedies ([`verdicts`] says what limits), and no clock.

mod mpi;
mod reason;
mod spins;
mod strips;
mod verdict;
mod wakers;

use std::collections::BTreeMap;

use base::{Pid, RemoteAddr};
use facts::{SamplingMethod, Wait, WaitKind};

use crate::profile::Profile;
use crate::selection::Selection;
use crate::stack::{LocationId, NodeIndex};
use crate::threads::ThreadIndex;
use crate::weight::Weight;

pub(crate) use mpi::InMpi;
pub use reason::Reason;
pub(crate) use spins::{SpinTable, SpinningFunctions, waiting_modules};
pub use strips::{Bin, State, Strip, Strips, strips};
pub(crate) use verdict::Workers;
pub use verdict::{Verdict, object_name, verdicts};
pub use wakers::{EndedWaits, WokenBy, by_waker};

/// Nanoseconds per reason, in the order of [`Reason::ALL`]. Fractions appear where rows are divided.
pub type ByReason = [f64; Reason::ALL.len()];

/// Where the life of a thread went, nanoseconds.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ThreadSplit {
    /// How long it lived, as far as it is selected.
    pub lived: f64,
    /// On a CPU, spinning included.
    pub running: f64,
    /// Part of `running` in functions that only wait: sampled.
    pub spinning: f64,
    /// Waiting for a CPU.
    pub ready: f64,
    /// Waiting for something.
    pub waiting: ByReason,
    /// Not known.
    pub unknown: f64,
    /// Samples of it, and those of them that spin.
    pub samples: (Weight, Weight),
    /// How often it was taken off its CPU though it could run, and how often it waited.
    pub switches: (u64, u64),
    /// Every wait had its stack, and none of its time was waiting for a CPU: reasons' times are counted.
    pub exact: bool,
}

impl ThreadSplit {
    /// Waiting for something, all reasons together.
    #[must_use]
    pub fn waited(&self) -> f64 {
        self.waiting.iter().sum()
    }

    /// Running and getting further.
    #[must_use]
    pub fn useful(&self) -> f64 {
        self.running - self.spinning
    }
}

/// What was waited for where.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WaitPlace {
    /// The thread that waited.
    pub thread: ThreadIndex,
    /// Why.
    pub reason: Reason,
    /// The process and the address of the futex; `None` for other reasons.
    pub object: Option<(Pid, RemoteAddr)>,
    /// The innermost frame that is the program's own.
    pub caller: Option<LocationId>,
    /// Where exactly.
    pub stack: Option<NodeIndex>,
}

/// How long and how often.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct WaitSum {
    /// Nanoseconds.
    pub time: f64,
    /// Waits; with a fraction where waits without a stack were divided.
    pub waits: f64,
    /// Waits of these whose stack was seen.
    pub seen: u64,
}

impl WaitSum {
    /// Adds what was waited elsewhere.
    pub fn add(&mut self, other: &WaitSum) {
        self.time += other.time;
        self.waits += other.waits;
        self.seen = self.seen.saturating_add(other.seen);
    }
}

/// Everything about the threads of a selection.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Threading {
    /// Per thread, in the order of the profile's table.
    pub threads: Vec<ThreadSplit>,
    /// Time waited per place.
    pub places: BTreeMap<WaitPlace, WaitSum>,
    /// How long each number of threads ran at once, nanoseconds. Of all threads of the program, whichever are selected.
    pub at_once: BTreeMap<u32, f64>,
}

/// Whether a recording followed the switches of threads.
#[must_use]
pub fn was_recorded(profile: &Profile<'_>) -> bool {
    !profile.recording.thread_times.is_empty()
}

/// Computes everything for the selected threads and time.
#[must_use]
pub fn threading(profile: &Profile<'_>, selection: &Selection) -> Threading {
    let exact = profile.recording.run.collector.method == SamplingMethod::PerfEvents;
    let mut found = Threading {
        threads: vec![ThreadSplit { exact, ..ThreadSplit::default() }; profile.threads.all().len()],
        ..Threading::default()
    };
    found.add_lives(profile, selection);
    found.add_running(profile, selection);
    found.add_waits(profile, selection);
    found.add_spinning(profile, selection);
    for split in &mut found.threads {
        let known = split.running + split.ready + split.waited();
        split.unknown = (split.lived - known).max(0.0);
    }
    for row in &profile.recording.concurrency {
        let share = selection.share_of_all(row.time, row.span);
        *found.at_once.entry(row.running).or_default() += row.duration.0 as f64 * share;
    }
    found
}

impl Threading {
    /// The sum over all selected threads.
    #[must_use]
    pub fn total(&self) -> ThreadSplit {
        let mut total = ThreadSplit { exact: true, ..ThreadSplit::default() };
        for split in &self.threads {
            total.exact &= split.exact;
            total.lived += split.lived;
            total.running += split.running;
            total.spinning += split.spinning;
            total.ready += split.ready;
            total.unknown += split.unknown;
            total.samples.0.merge(&split.samples.0);
            total.samples.1.merge(&split.samples.1);
            total.switches.0 = total.switches.0.saturating_add(split.switches.0);
            total.switches.1 = total.switches.1.saturating_add(split.switches.1);
            for (sum, part) in total.waiting.iter_mut().zip(split.waiting) {
                *sum += part;
            }
        }
        total
    }

    fn add_lives(&mut self, profile: &Profile<'_>, selection: &Selection) {
        for thread in profile.threads.all() {
            let Some(index) = profile.threads.find(thread.pid, thread.tid) else { continue };
            if selection.has_thread(index) {
                // Of the selected time, what was observed.
                let parts = selection.parts(index, thread.start, thread.end).into_iter();
                let lived = parts.map(|(from, to)| profile.observed_in(from, to).0 as f64).sum();
                self.threads[index.index()].lived = lived;
            }
        }
    }

    fn add_running(&mut self, profile: &Profile<'_>, selection: &Selection) {
        for row in &profile.recording.thread_times {
            let Some(thread) = profile.threads.find(row.pid, row.tid) else { continue };
            if selection.has_thread(thread) {
                let share = selection.share(thread, row.time, row.span);
                let split = &mut self.threads[thread.index()];
                split.running += row.running.0 as f64 * share;
                // All that was queued for now; what is no preemption is taken off the waits.
                split.ready += row.queued.map_or(0.0, |queued| queued.0 as f64 * share);
            }
        }
    }

    fn add_waits(&mut self, profile: &Profile<'_>, selection: &Selection) {
        let mut preempted = vec![0.0; self.threads.len()];
        let mut waits: Vec<(WaitPlace, WaitSum)> = Vec::new();
        for row in wait_rows(profile, selection) {
            let (wait, at) = (row.wait, row.thread.index());
            let switches = &mut self.threads[at].switches;
            let Some(blocked) = row.blocked else {
                switches.0 = switches.0.saturating_add(wait.waits);
                preempted[at] += row.time();
                continue;
            };
            switches.1 = switches.1.saturating_add(wait.waits);
            self.threads[at].exact &= row.factor == 1.0;
            if row.factor > 0.0 {
                let object = blocked.reason.object(wait.object);
                let place = WaitPlace {
                    thread: row.thread,
                    reason: blocked.reason,
                    object: object.map(|at| (wait.pid, at)),
                    caller: blocked.caller,
                    stack: blocked.stack,
                };
                let seen = if blocked.stack.is_some() { wait.waits } else { 0 };
                let many = wait.waits as f64 * row.share * row.factor;
                waits.push((place, WaitSum { time: row.time(), waits: many, seen }));
            }
        }
        let blocked = self.blocked(&waits);
        let kept = self.take_ready_off(&preempted, &blocked);
        for (place, mut sum) in waits {
            sum.time *= kept[place.thread.index()];
            self.threads[place.thread.index()].waiting[place.reason as usize] += sum.time;
            self.places.entry(place).or_default().add(&sum);
        }
    }

    fn blocked(&self, waits: &[(WaitPlace, WaitSum)]) -> Vec<f64> {
        let mut blocked = vec![0.0; self.threads.len()];
        for (place, sum) in waits {
            blocked[place.thread.index()] += sum.time;
        }
        blocked
    }

    /// Settles how long threads were ready, and returns which part of each thread's waits is left.
    fn take_ready_off(&mut self, preempted: &[f64], blocked: &[f64]) -> Vec<f64> {
        let threads = self.threads.iter_mut().zip(preempted.iter().zip(blocked));
        threads
            .map(|(split, (preempted, blocked))| {
                // The counter is read ten times a second, so it may lack the end, but never counts what was not.
                split.ready = split.ready.clamp(*preempted, preempted + blocked);
                split.exact &= split.ready <= *preempted;
                if *blocked > 0.0 { 1.0 - (split.ready - preempted) / blocked } else { 1.0 }
            })
            .collect()
    }

    fn add_spinning(&mut self, profile: &Profile<'_>, selection: &Selection) {
        let mut table = SpinTable::new(&profile.stacks);
        for cell in profile.cells(selection) {
            let split = &mut self.threads[cell.thread.index()];
            split.samples.0.merge(&cell.weight);
            if table.spins(cell.stack) {
                split.samples.1.merge(&cell.weight);
            }
        }
        for split in &mut self.threads {
            let (all, spinning) = (split.samples.0.amount(), split.samples.1.amount());
            if all > 0 {
                split.spinning = split.running * (spinning as f64 / all as f64);
            }
        }
    }
}

/// A selected row of waits, and what it counts as.
pub(crate) struct WaitRow<'a> {
    pub(crate) wait: &'a Wait,
    pub(crate) thread: ThreadIndex,
    /// How much of it is selected.
    pub(crate) share: f64,
    /// Its weight: waits with a stack represent similar ones without, which weigh 0.
    pub(crate) factor: f64,
    /// `None` of preemptions.
    pub(crate) blocked: Option<Blocked>,
    /// For waits without a stack: time per reason of similar waits that have one, if any has.
    pub(crate) like: Option<ByReason>,
}

/// Why a thread waited, and where.
#[derive(Clone, Copy)]
pub(crate) struct Blocked {
    pub(crate) reason: Reason,
    caller: Option<LocationId>,
    stack: Option<NodeIndex>,
}

impl WaitRow<'_> {
    fn time(&self) -> f64 {
        self.wait.waited.0 as f64 * self.share * self.factor
    }
}

/// The rows of the selected threads and time.
pub(crate) fn wait_rows<'a>(profile: &'a Profile<'_>, selection: &Selection) -> Vec<WaitRow<'a>> {
    let mut known: BTreeMap<Option<NodeIndex>, Blocked> = BTreeMap::new();
    let mut mpi = mpi::MpiTable::new(&profile.stacks);
    let mut blocked = |stack| {
        *known.entry(stack).or_insert_with(|| Blocked {
            reason: reason::reason(&profile.stacks, &mut mpi, stack),
            caller: reason::caller(&profile.stacks, stack),
            stack,
        })
    };
    let divided = Divided::new(profile, selection, &mut blocked);
    let mut rows = Vec::new();
    for wait in &profile.recording.waits {
        let Some(thread) = profile.threads.find(wait.pid, wait.tid) else { continue };
        let share = selection.share(thread, wait.time, wait.span);
        if !selection.has_thread(thread) || share <= 0.0 {
            continue;
        }
        let stack = wait.stack.and_then(|id| profile.stacks.find(id));
        let (factor, blocked, like) = match wait.kind {
            WaitKind::Preempted => (1.0, None, None),
            WaitKind::Blocked => {
                let like = if stack.is_none() { divided.like(thread, wait) } else { None };
                (divided.factor(thread, wait, stack.is_some()), Some(blocked(stack)), like)
            }
        };
        rows.push(WaitRow { wait, thread, share, factor, blocked, like });
    }
    rows
}

/// Time of the waits of a thread of about one length: by reason of those with a stack, and of all.
#[derive(Clone, Copy, Default)]
struct SimilarWaits {
    seen: ByReason,
    all: f64,
}

/// What is known of waits that are like each other.
#[derive(Default)]
struct Divided {
    sums: BTreeMap<(ThreadIndex, u32), SimilarWaits>,
}

impl Divided {
    fn new(
        profile: &Profile<'_>,
        selection: &Selection,
        blocked: &mut dyn FnMut(Option<NodeIndex>) -> Blocked,
    ) -> Divided {
        let mut divided = Divided::default();
        for wait in profile.recording.waits.iter().filter(|wait| wait.kind == WaitKind::Blocked) {
            let Some(thread) = profile.threads.find(wait.pid, wait.tid) else { continue };
            let time = wait.waited.0 as f64 * selection.share(thread, wait.time, wait.span);
            let stack = wait.stack.and_then(|id| profile.stacks.find(id));
            let alike = divided.sums.entry((thread, digits(wait))).or_default();
            alike.all += time;
            if stack.is_some() {
                alike.seen[blocked(stack).reason as usize] += time;
            }
        }
        divided
    }

    fn find(&self, thread: ThreadIndex, wait: &Wait) -> SimilarWaits {
        self.sums.get(&(thread, digits(wait))).copied().unwrap_or_default()
    }

    /// The weight of the row: waits with a stack represent the others, which then weigh 0.
    fn factor(&self, thread: ThreadIndex, wait: &Wait, has_stack: bool) -> f64 {
        let alike = self.find(thread, wait);
        let seen: f64 = alike.seen.iter().sum();
        match (seen > 0.0, has_stack) {
            (true, true) => alike.all / seen,
            (true, false) => 0.0,
            (false, _) => 1.0,
        }
    }

    /// For what those waited that are like this one.
    fn like(&self, thread: ThreadIndex, wait: &Wait) -> Option<ByReason> {
        let seen = self.find(thread, wait).seen;
        (seen.iter().sum::<f64>() > 0.0).then_some(seen)
    }
}

/// Number of binary digits of the mean length of a row's waits.
fn digits(wait: &Wait) -> u32 {
    let mean = wait.waited.0 / wait.waits.max(1);
    u64::BITS - mean.leading_zeros()
}
