//! Rounds: threads that a program starts for each step of its work, and whose end it awaits before the next step.
//!
//! What for: what the last thread of each round computed more than the others, and which threads do the same work at all. What
//! not: conditions; rounds of threads that stay (a pool that meets at a barrier), which only waits show.
//!
//! The lifetimes of such threads leave gaps in which none of them exists: a round lies between two gaps. A round has few samples.
//! So the thread that ends last counts as the one with most work, not the one with most samples: in every round some thread has
//! most samples by chance, and the sum would show an imbalance that does not exist. Ends are known exactly.
//! Assumption: as in `threads`, no thread id is used twice. One that is looks like a long lifetime, and hides rounds.

use std::collections::{BTreeMap, BTreeSet};

use base::{IndexMap, Nanos, Pid};
use facts::Metric;

use super::NamedLocation;
use crate::profile::Profile;
use crate::stack::{FunctionId, NodeIndex};
use crate::threading::SpinTable;
use crate::threads::{Thread, ThreadIndex};
use crate::weight::Weight;

/// Threads do the same work when they have this part of their time in the same functions.
const ALIKE: f64 = 0.25;
/// With fewer samples a thread is not known to be in the same functions as others for the same part of its time.
const FEW: u64 = 8;
/// Threads of a round begin within this part of the longest life among them.
const TOGETHER: f64 = 0.25;
/// A thread without samples does not show its work; it counts if it lived for less than this many sampling periods.
const SHORT: u64 = 20;
/// A function is one of the round's work from this share of its threads' time on.
const WORTH: f64 = 0.1;
/// The first thread takes part in the work if it has at least this share of the others' mean time in the same functions.
const ALONG: f64 = 0.02;
/// The first thread had more work than the others if it continues for this share of a round after the last of them ended.
const GOES_ON: f64 = 0.05;

/// The rounds of a process.
#[derive(Clone, PartialEq, Debug)]
pub struct Rounds {
    /// How many.
    pub rounds: usize,
    /// How many threads each has; the first thread of the process is one of them where it works along.
    pub threads: usize,
    /// CPU time of the one that each ended with, summed, seconds.
    pub last: Metric,
    /// That of all others.
    pub others: Metric,
    /// The function with most of their time.
    pub place: NamedLocation,
}

/// CPU time per function, without what only waits.
#[derive(Clone, Default)]
pub(super) struct Work {
    functions: BTreeMap<FunctionId, u64>,
    /// All that a thread computed, in these functions.
    pub(super) computed: Weight,
    /// It ran only to wait for others.
    only_spins: bool,
}

impl Work {
    /// One per thread, in the order of the profile's table.
    pub(super) fn of_threads(profile: &Profile<'_>) -> Vec<Work> {
        let mut threads = vec![Work::default(); profile.threads.all().len()];
        let stacks = &profile.stacks;
        let mut spinning = SpinTable::new(stacks);
        // Many threads have the same stacks, and the same functions many stacks.
        let mut functions: IndexMap<Option<NodeIndex>, Option<FunctionId>> = IndexMap::default();
        let mut sums: IndexMap<(ThreadIndex, FunctionId), u64> = IndexMap::default();
        for cell in profile.all_cells() {
            let work = &mut threads[cell.thread.index()];
            let function = functions.entry(cell.stack).or_insert_with(|| {
                let place = stacks.innermost_user(cell.stack);
                (!spinning.spins(cell.stack)).then(|| stacks.places[place.index()].function)
            });
            let Some(function) = *function else {
                work.only_spins = work.computed.is_empty();
                continue;
            };
            work.only_spins = false;
            work.computed.merge(&cell.weight);
            *sums.entry((cell.thread, function)).or_default() += cell.weight.amount();
        }
        for ((thread, function), amount) in sums {
            threads[thread.index()].functions.insert(function, amount);
        }
        threads
    }

    /// Whether both spend a good part of their time in the same functions. A thread that only spins is waiting for its team. A
    /// short thread has few samples, so it is enough that they are where the other often is.
    pub(super) fn is_like(&self, other: &Work) -> bool {
        if (1..FEW).contains(&self.computed.records()) {
            let often = other.main_functions();
            let there = self.functions.iter().filter(|(function, _)| often.contains(function));
            let there: u64 = there.map(|(_, amount)| *amount).sum();
            if there * 2 >= self.computed.amount() {
                return true;
            }
        }
        let share = |work: &Work, function| {
            let own = work.functions.get(function).copied().unwrap_or(0);
            own as f64 / work.computed.amount().max(1) as f64
        };
        let common = self.functions.keys().map(|one| share(self, one).min(share(other, one)));
        self.only_spins || common.sum::<f64>() >= ALIKE
    }

    fn merge(&mut self, other: &Work) {
        for (function, amount) in &other.functions {
            *self.functions.entry(*function).or_default() += amount;
        }
        self.computed.merge(&other.computed);
    }

    /// The functions that have much of it.
    fn main_functions(&self) -> BTreeSet<FunctionId> {
        let least = self.computed.amount() as f64 * WORTH;
        let much = self.functions.iter().filter(|(_, amount)| **amount as f64 >= least);
        much.map(|(function, _)| *function).collect()
    }

    /// The function that has most of it.
    pub(super) fn place(&self, profile: &Profile<'_>) -> NamedLocation {
        let top = self.functions.iter().max_by_key(|(_, amount)| **amount);
        top.map_or_else(NamedLocation::default, |(function, _)| {
            let function = &profile.stacks.functions[function.index()];
            let (name, file) = (Some(function.name.clone()), function.file.clone());
            NamedLocation { function: name, file, ..NamedLocation::default() }
        })
    }
}

/// Threads whose lives overlap.
struct Round {
    threads: Vec<ThreadIndex>,
    start: Nanos,
    end: Nanos,
}

/// The rounds of every process that has any.
pub(super) fn rounds(profile: &Profile<'_>, work: &[Work]) -> Vec<Rounds> {
    let started = profile.threads.all().iter().filter(|thread| !is_first(thread));
    let pids: BTreeSet<Pid> = started.map(|thread| thread.pid).collect();
    pids.into_iter().filter_map(|pid| Process::new(profile, work, pid)?.rounds()).collect()
}

/// A process and the threads that it started.
struct Process<'a> {
    profile: &'a Profile<'a>,
    work: &'a [Work],
    pid: Pid,
    /// The sum over all threads that it started.
    team: Work,
}

impl<'a> Process<'a> {
    fn new(profile: &'a Profile<'_>, work: &'a [Work], pid: Pid) -> Option<Process<'a>> {
        let mut team = Work::default();
        for (thread, own) in profile.threads.all().iter().zip(work) {
            if thread.pid == pid && !is_first(thread) {
                team.merge(own);
            }
        }
        (!team.computed.is_empty()).then_some(Process { profile, work, pid, team })
    }

    fn rounds(&self) -> Option<Rounds> {
        let all = self.overlapping();
        let length =
            |rounds: &[&Round]| rounds.iter().map(|one| (one.end - one.start).0).sum::<u64>();
        let mut by_size: BTreeMap<usize, Vec<&Round>> = BTreeMap::new();
        for round in all.iter().filter(|round| self.began_together(round)) {
            by_size.entry(round.threads.len()).or_default().push(round);
        }
        let (size, usual) = by_size.into_iter().max_by_key(|(_, rounds)| length(rounds))?;
        let whole = length(&all.iter().collect::<Vec<_>>());
        // Threads that come and go as they like, one for each request, form no rounds, or rounds of any size.
        if usual.len() < 2 || length(&usual) < whole / 2 {
            return None;
        }
        let along = FirstThread::new(self, &all);
        let works_along = along.works(self, size, &usual);
        let threads = size + usize::from(works_along);
        if threads < 2 {
            return None;
        }
        let (last, others) = self.divided(&usual, works_along.then_some(&along));
        let scale = self.profile.cpu_scale();
        Some(Rounds {
            rounds: usual.len(),
            threads,
            last: scale.quantity(&last),
            others: scale.quantity(&others),
            place: self.team.place(self.profile),
        })
    }

    /// CPU time of the last thread of each round, and of the others; with the first thread of the process, if it takes part.
    fn divided(&self, rounds: &[&Round], along: Option<&FirstThread>) -> (Weight, Weight) {
        let (mut last, mut others) = (Weight::default(), Weight::default());
        for round in rounds {
            let by_first = along.is_some_and(|along| along.ends(round));
            let end = |thread: &&ThreadIndex| self.profile.threads.get(**thread).end;
            let ending = round.threads.iter().max_by_key(end).filter(|_| !by_first);
            for thread in &round.threads {
                let sum = if Some(thread) == ending { &mut last } else { &mut others };
                sum.merge(&self.work[thread.index()].computed);
            }
            if let Some(along) = along {
                let sum = if by_first { &mut last } else { &mut others };
                sum.merge(&along.of(round).computed);
            }
        }
        (last, others)
    }

    /// Threads that do the process's work, as far as they come and go, in groups whose lives overlap; in order of time.
    fn overlapping(&self) -> Vec<Round> {
        let whole = self.profile.whole();
        let short = Nanos((whole.amount() / whole.records().max(1)).saturating_mul(SHORT));
        let mut own: Vec<(ThreadIndex, &Thread)> = Vec::new();
        for (at, thread) in self.profile.threads.all().iter().enumerate() {
            let work = &self.work[at];
            let idle = work.computed.is_empty() && thread.end - thread.start < short;
            let belongs = thread.pid == self.pid && !is_first(thread) && thread.start_known;
            if belongs && (idle || work.is_like(&self.team)) {
                own.push((ThreadIndex::new(at), thread));
            }
        }
        own.sort_by_key(|(_, thread)| (thread.start, thread.end));
        let mut rounds: Vec<Round> = Vec::new();
        for (index, thread) in own {
            match rounds.last_mut().filter(|round| thread.start < round.end) {
                Some(round) => {
                    round.threads.push(index);
                    round.end = round.end.max(thread.end);
                }
                None => {
                    let (start, end) = (thread.start, thread.end);
                    rounds.push(Round { threads: vec![index], start, end });
                }
            }
        }
        rounds
    }

    fn began_together(&self, round: &Round) -> bool {
        let lives = || round.threads.iter().map(|thread| self.profile.threads.get(*thread));
        let latest = lives().map(|thread| thread.start).max().unwrap_or(round.start);
        let longest = lives().map(|thread| (thread.end - thread.start).0).max().unwrap_or(0);
        (latest - round.start).0 as f64 <= TOGETHER * longest as f64
    }
}

fn is_first(thread: &Thread) -> bool {
    thread.tid.0 == thread.pid.0
}

/// What the first thread of the process did from the start of a round to that of the next.
#[derive(Clone, Copy, Default)]
struct First {
    /// In the functions of the round's threads.
    computed: Weight,
    /// The next round begins a good while after this one ended.
    goes_on: bool,
}

/// The first thread of a process, which starts the others.
struct FirstThread {
    /// By the start of the round.
    rounds: BTreeMap<Nanos, First>,
    /// What it did while no other lived: in their functions, and in all.
    between: (u64, u64),
}

impl FirstThread {
    fn new(process: &Process<'_>, all: &[Round]) -> FirstThread {
        let profile = process.profile;
        let functions = process.team.main_functions();
        let mut rounds: BTreeMap<Nanos, First> = BTreeMap::new();
        for (at, round) in all.iter().enumerate() {
            let next = all.get(at + 1).map_or(profile.elapsed(), |next| next.start);
            let (pause, length) = (next - round.end, next - round.start);
            let goes_on = pause.0 as f64 >= GOES_ON * length.0 as f64;
            rounds.insert(round.start, First { goes_on, ..First::default() });
        }
        let mut between = (0, 0);
        let first =
            |sample: &&facts::Sample| sample.pid == process.pid && sample.tid.0 == process.pid.0;
        for sample in profile.recording.samples.iter().filter(first) {
            let at = all.partition_point(|round| round.start <= sample.time);
            let Some(round) = at.checked_sub(1).and_then(|at| all.get(at)) else { continue };
            let stack = sample.stack.and_then(|id| profile.stacks.find(id));
            let place = profile.stacks.innermost_user(stack);
            let same = functions.contains(&profile.stacks.places[place.index()].function);
            if sample.time >= round.end {
                between.1 += sample.weight.0;
                between.0 += if same { sample.weight.0 } else { 0 };
            }
            if let Some(own) = rounds.get_mut(&round.start).filter(|_| same) {
                own.computed.add(sample.weight.0);
            }
        }
        FirstThread { rounds, between }
    }

    fn of(&self, round: &Round) -> First {
        self.rounds.get(&round.start).copied().unwrap_or_default()
    }

    /// Whether it does what they do, in rounds of this many threads.
    fn works(&self, process: &Process<'_>, size: usize, usual: &[&Round]) -> bool {
        let own: u64 = usual.iter().map(|round| self.of(round).computed.amount()).sum();
        let threads = usual.iter().flat_map(|round| &round.threads);
        let theirs: u64 =
            threads.map(|thread| process.work[thread.index()].computed.amount()).sum();
        own as f64 >= ALONG * theirs as f64 / size as f64 && own > 0
    }

    /// Whether the round ends with it: it goes on when they are gone, and what it does then is mostly their work, not another
    /// step of the program.
    fn ends(&self, round: &Round) -> bool {
        self.of(round).goes_on && self.between.0 >= self.between.1 / 2
    }
}

#[cfg(test)]
mod tests;
