//! What limits a threaded program, in sentences with their evidence.
//!
//! What not: remedies. Assumption: the thresholds below are conventions, not measurements; each sentence carries its figures, so
//! that a reader may judge otherwise.

use std::collections::BTreeMap;

use base::{Pid, RemoteAddr};

use super::{Reason, ThreadSplit, Threading};
use crate::profile::Profile;
use crate::stack::LocationId;
use crate::threads::ThreadIndex;

/// From this share of the workers' time on something is worth a sentence, percent.
const WORTH: f64 = 10.0;
/// Work is imbalanced from this ratio of the busiest thread to the mean on.
const UNBALANCED: f64 = 1.2;
/// A thread that does less than this share of what the busiest does is not a worker.
const IDLE: f64 = 0.05;
/// A thread that lived for less than this share of the longest-lived worker says nothing about balance.
const SHORT_LIVED: f64 = 0.5;
/// Less spinning, percent, is none.
const SOME: f64 = 1.0;

/// A sentence about what limits the program.
#[derive(Clone, PartialEq, Debug)]
pub struct Verdict {
    /// Its name, stable.
    pub id: &'static str,
    /// What it says.
    pub sentence: String,
    /// How much of the workers' time it is about, percent. The sentences are in its order.
    pub percent: f64,
}

/// The name of what threads wait at.
#[must_use]
pub fn object_name(profile: &Profile<'_>, object: (Pid, RemoteAddr)) -> String {
    let known = profile.recording.wait_objects.iter();
    let mut known = known.filter(|known| (known.pid, known.address) == object);
    known.next().map_or_else(|| object.1.to_string(), |known| known.name.clone())
}

/// What limits the program, the most important first; there is always one when threads ran.
#[must_use]
pub fn verdicts(profile: &Profile<'_>, found: &Threading, cpus: Option<f64>) -> Vec<Verdict> {
    let workers = Workers::new(found);
    if workers.lived <= 0.0 {
        return Vec::new();
    }
    let mut verdicts = Vec::new();
    verdicts.extend(one_at_a_time(found, &workers, cpus));
    verdicts.extend(imbalance(profile, &workers));
    verdicts.extend(contention(profile, found, &workers));
    verdicts.extend(oversubscription(&workers, cpus));
    verdicts.extend(outside(profile, found, &workers));
    verdicts.extend(unexplained(&workers));
    verdicts.sort_by(|a, b| b.percent.total_cmp(&a.percent));
    if verdicts.is_empty() {
        let worst = workers.sum.waited() + workers.sum.ready + workers.sum.spinning;
        let (waits, spun) = match workers.percent(workers.sum.spinning) {
            spun if spun < SOME => ("no waits", String::new()),
            spun => ("few waits", format!(" and spun {spun:.0} %")),
        };
        verdicts.push(Verdict {
            id: "balanced",
            sentence: format!(
                "balanced, {waits}: {} ran {:.0} % of the time{spun}, the busiest {:.2} times the mean. The limit is \
                elsewhere: check memory bandwidth (`fathom run`)",
                plural(workers.threads.len()),
                workers.percent(workers.sum.running - workers.sum.spinning),
                workers.imbalance(),
            ),
            percent: 100.0 - workers.percent(worst),
        });
    }
    verdicts
}

fn plural(threads: usize) -> String {
    if threads == 1 { "1 thread".to_owned() } else { format!("{threads} threads") }
}

/// Threads that do the program's work: not those that only start others and wait for their end.
pub(crate) struct Workers<'a> {
    pub(crate) threads: Vec<(ThreadIndex, &'a ThreadSplit)>,
    /// The split of all of them together.
    pub(crate) sum: ThreadSplit,
    /// Nanoseconds, of all of them.
    pub(crate) lived: f64,
}

impl<'a> Workers<'a> {
    pub(crate) fn new(found: &'a Threading) -> Workers<'a> {
        // Who waits for a lock or for a CPU would work.
        let work = |split: &ThreadSplit| {
            split.running + split.ready + split.waiting[Reason::Lock as usize]
        };
        let most = found.threads.iter().map(work).fold(0.0, f64::max);
        let mut workers = Workers { threads: Vec::new(), sum: ThreadSplit::default(), lived: 0.0 };
        for (at, split) in found.threads.iter().enumerate() {
            if split.lived > 0.0 && work(split) >= most * IDLE {
                workers.threads.push((ThreadIndex::new(at), split));
            }
        }
        let chosen = workers.threads.iter().map(|(_, split)| (*split).clone()).collect();
        workers.sum = Threading { threads: chosen, ..Threading::default() }.total();
        workers.lived = workers.sum.lived;
        workers
    }

    fn percent(&self, time: f64) -> f64 {
        100.0 * time / self.lived
    }

    pub(crate) fn has(&self, thread: ThreadIndex) -> bool {
        self.threads.iter().any(|(index, _)| *index == thread)
    }

    /// Those that lived long enough to be compared.
    fn comparable(&self) -> Vec<(ThreadIndex, f64)> {
        let longest = self.threads.iter().map(|(_, split)| split.lived).fold(0.0, f64::max);
        let long = self.threads.iter().filter(|(_, split)| split.lived >= longest * SHORT_LIVED);
        long.map(|(index, split)| (*index, split.useful())).collect()
    }

    /// The busiest thread's work over the mean.
    fn imbalance(&self) -> f64 {
        let work = self.comparable();
        let mean = work.iter().map(|(_, work)| work).sum::<f64>() / work.len().max(1) as f64;
        let most = work.iter().map(|(_, work)| *work).fold(0.0, f64::max);
        if mean > 0.0 { most / mean } else { 1.0 }
    }
}

/// Only one thread runs nearly all of the time that any does.
fn one_at_a_time(found: &Threading, workers: &Workers<'_>, cpus: Option<f64>) -> Option<Verdict> {
    // Percent. The rest is the hand-over from one thread to the next.
    const NEARLY: f64 = 90.0;
    let all: f64 = found.at_once.values().sum();
    let idle = found.at_once.get(&0).copied().unwrap_or(0.0);
    // While one waits for a CPU another is not alone because there is nothing to do for two.
    let alone = found.at_once.get(&1).map_or(0.0, |alone| (alone - workers.sum.ready).max(0.0));
    let (percent, of_running) = (100.0 * alone / all, 100.0 * alone / (all - idle));
    // Without switches there are no such rows.
    if all <= idle || percent < WORTH || of_running < NEARLY || cpus.is_some_and(|cpus| cpus <= 1.0)
    {
        return None;
    }
    let of = cpus.map_or_else(String::new, |cpus| format!(", of {cpus} CPUs"));
    let (id, who) = match workers.threads.len() {
        1 => ("single-threaded", "single-threaded: one thread does the work".to_owned()),
        many => ("in-turn", format!("in turn: {many} threads work, rarely two at once")),
    };
    let sentence =
        format!("{who}; in {of_running:.0} % of the time with a running thread only one ran{of}");
    Some(Verdict { id, sentence, percent })
}

/// Threads wait at barriers for one that has more to do.
fn imbalance(profile: &Profile<'_>, workers: &Workers<'_>) -> Option<Verdict> {
    let work = workers.comparable();
    let (busiest, _) = work.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let ratio = workers.imbalance();
    let waited = workers.sum.waiting[Reason::Barrier as usize];
    let percent = workers.percent(waited + workers.sum.spinning);
    (work.len() > 1 && ratio >= UNBALANCED && percent >= WORTH).then(|| Verdict {
        id: "imbalanced",
        sentence: format!(
            "imbalanced: thread {} does {ratio:.2} times the mean of {} threads, which wait {percent:.0} % of their time at \
             barriers ({:.0} % spinning)",
            profile.threads.get(*busiest).label(),
            work.len(),
            workers.percent(workers.sum.spinning),
        ),
        percent,
    })
}

/// Threads wait for what another has.
fn contention(profile: &Profile<'_>, found: &Threading, workers: &Workers<'_>) -> Option<Verdict> {
    type Waited = (Reason, Option<(Pid, RemoteAddr)>);
    let mut objects: BTreeMap<Waited, BTreeMap<Option<LocationId>, f64>> = BTreeMap::new();
    for (place, sum) in &found.places {
        let locks = matches!(place.reason, Reason::Lock | Reason::Condition);
        if locks && workers.has(place.thread) {
            let waited = (place.reason, place.object);
            *objects.entry(waited).or_default().entry(place.caller).or_default() += sum.time;
        }
    }
    let total = |callers: &BTreeMap<_, f64>| callers.values().sum::<f64>();
    let ((reason, object), callers) =
        objects.iter().max_by(|a, b| total(a.1).total_cmp(&total(b.1)))?;
    let caller = callers.iter().max_by(|a, b| a.1.total_cmp(b.1)).and_then(|(place, _)| *place);
    let percent = workers.percent(total(callers));
    (percent >= WORTH).then(|| Verdict {
        id: "contended",
        sentence: format!(
            "threads wait {percent:.0} % of their time {} {}{}",
            if *reason == Reason::Lock { "for the lock" } else { "for the condition variable" },
            object.map_or_else(|| "of unknown address".to_owned(), |at| object_name(profile, at)),
            called_from(profile, caller),
        ),
        percent,
    })
}

fn called_from(profile: &Profile<'_>, caller: Option<LocationId>) -> String {
    let name = caller.map(|place| &profile.stacks.function_of(place).name);
    name.map_or_else(String::new, |name| format!(", called from {name}"))
}

/// More threads want to run than there are CPUs.
fn oversubscription(workers: &Workers<'_>, cpus: Option<f64>) -> Option<Verdict> {
    let cpus = cpus?;
    let percent = workers.percent(workers.sum.ready);
    let threads = workers.threads.len();
    let (id, sentence) = if threads as f64 > cpus {
        let sentence = format!(
            "oversubscribed: {threads} threads compete for {cpus} CPUs; each waits {percent:.0} % of its time for \
             one"
        );
        ("oversubscribed", sentence)
    } else {
        let sentence = format!(
            "crowded out: {} waited {percent:.0} % of the time for a CPU, although there are {cpus}: other \
             programs had them, and may have caused other waits and the low concurrency",
            plural(threads)
        );
        ("crowded-out", sentence)
    };
    (percent >= WORTH).then_some(Verdict { id, sentence, percent })
}

/// Threads wait, and nothing says for what; or their time itself is not known.
fn unexplained(workers: &Workers<'_>) -> Option<Verdict> {
    let reasons = [Reason::Unknown, Reason::Other, Reason::Futex, Reason::Fault];
    let waited: f64 = reasons.iter().map(|reason| workers.sum.waiting[*reason as usize]).sum();
    let percent = workers.percent(waited + workers.sum.unknown);
    (percent >= WORTH).then(|| Verdict {
        id: "unexplained",
        sentence: format!(
            "threads wait {percent:.0} % of their time for an unknown reason: see `fathom report waits`"
        ),
        percent,
    })
}

/// Threads wait for what is not in the program.
fn outside(profile: &Profile<'_>, found: &Threading, workers: &Workers<'_>) -> Option<Verdict> {
    let mut reasons: BTreeMap<Reason, BTreeMap<Option<LocationId>, f64>> = BTreeMap::new();
    for (place, sum) in &found.places {
        let outside =
            matches!(place.reason, Reason::Io | Reason::Poll | Reason::Sleep | Reason::Child);
        if outside && workers.has(place.thread) {
            *reasons.entry(place.reason).or_default().entry(place.caller).or_default() += sum.time;
        }
    }
    let total = |callers: &BTreeMap<_, f64>| callers.values().sum::<f64>();
    let (reason, callers) = reasons.iter().max_by(|a, b| total(a.1).total_cmp(&total(b.1)))?;
    let caller = callers.iter().max_by(|a, b| a.1.total_cmp(b.1)).and_then(|(place, _)| *place);
    let percent = workers.percent(total(callers));
    (percent >= WORTH).then(|| Verdict {
        id: "waits-outside",
        sentence: format!(
            "threads wait {percent:.0} % of their time outside the program: {}{}",
            reason.name(),
            called_from(profile, caller),
        ),
        percent,
    })
}
