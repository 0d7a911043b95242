//! What the working threads waited for.
//!
//! What for: figures for rules, of recordings that followed every thread switch. What not: conditions.

use std::collections::BTreeMap;

use base::{Nanos, Pid, RemoteAddr};
use facts::{Evidence, Metric};

use super::NamedLocation;
use crate::findings::NotJudged;
use crate::profile::Profile;
use crate::selection::Selection;
use crate::stack::LocationId;
use crate::threading::{
    Reason, ThreadSplit, Threading, Workers, object_name, threading, was_recorded,
};
use estimate::interval::wilson;

/// A lock that threads waited for.
#[derive(Clone, PartialEq, Debug)]
pub struct LockWait {
    /// Who waited most, and the lock.
    pub place: NamedLocation,
    /// Seconds, summed over threads.
    pub time: Metric,
    /// How often.
    pub waits: Metric,
}

/// What was waited for at some place.
#[derive(Clone, PartialEq, Debug)]
pub struct Waited {
    /// Seconds, summed over threads.
    pub time: Metric,
    /// Where most of it.
    pub place: NamedLocation,
}

/// Waits of the threads that work.
#[derive(Clone, PartialEq, Debug)]
pub struct WaitFigures {
    /// How many these are.
    pub workers: f64,
    /// Their lives, seconds, summed.
    pub lived: f64,
    /// CPU time without spinning, seconds, summed.
    pub useful: f64,
    /// Per lock, most time first.
    pub locks: Vec<LockWait>,
    /// At barriers; spinning is part of it.
    pub barriers: Waited,
    /// For files, pipes, sockets and disks.
    pub io: Waited,
}

/// What a recording says about its threads, if it followed them.
pub(super) fn split(profile: &Profile<'_>) -> Option<Threading> {
    was_recorded(profile).then(|| threading(profile, &Selection::default()))
}

pub(super) fn waits(
    profile: &Profile<'_>,
    found: Option<&Threading>,
) -> Result<WaitFigures, NotJudged> {
    let Some(found) = found else {
        return Err(NotJudged::OtherAnalysis(
            "waits were not recorded: `fathom collect threading` records them".to_owned(),
        ));
    };
    let workers = Workers::new(found);
    if workers.threads.is_empty() {
        return Err("no thread of it ran".into());
    }
    let sum = &workers.sum;
    let at = |reason, more| {
        let callers = callers(found, &workers, reason);
        let top =
            callers.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).and_then(|(place, _)| place);
        let nanos = sum.waiting[reason as usize] + more;
        Waited { time: time(nanos, sum.exact && more == 0.0), place: of(profile, top) }
    };
    Ok(WaitFigures {
        workers: workers.threads.len() as f64,
        lived: workers.lived * 1e-9,
        useful: sum.useful() * 1e-9,
        locks: locks(profile, found, &workers),
        barriers: at(Reason::Barrier, sum.spinning),
        io: at(Reason::Io, 0.0),
    })
}

/// CPU time of a thread without spinning: counted exactly, except for the spinning, which is sampled.
pub(super) fn computed(split: &ThreadSplit) -> Metric {
    let (all, spinning) = (&split.samples.0, &split.samples.1);
    if spinning.amount() == 0 {
        return time(split.running, true);
    }
    let (low, high) =
        wilson(spinning.amount() as f64 / all.amount().max(1) as f64, all.effective_records());
    let interval = (split.running * (1.0 - high) * 1e-9, split.running * (1.0 - low) * 1e-9);
    Metric::with_interval(Evidence::Sampled, split.useful() * 1e-9, "s", interval, all.records())
}

fn time(nanos: f64, exact: bool) -> Metric {
    let metric = Metric::counted(Nanos(nanos.max(0.0) as u64).seconds(), "s");
    if exact {
        metric
    } else {
        Metric { low: None, high: None, evidence: Some(Evidence::Estimated), ..metric }
    }
}

fn of(profile: &Profile<'_>, place: Option<LocationId>) -> NamedLocation {
    place.map_or_else(NamedLocation::default, |place| NamedLocation::of(profile, place))
}

type Callers = BTreeMap<Option<LocationId>, f64>;

fn callers(found: &Threading, workers: &Workers<'_>, reason: Reason) -> Callers {
    let mut callers = Callers::new();
    let own = found.places.iter().filter(|(place, _)| place.reason == reason);
    for (place, sum) in own.filter(|(place, _)| workers.has(place.thread)) {
        *callers.entry(place.caller).or_default() += sum.time;
    }
    callers
}

fn locks(profile: &Profile<'_>, found: &Threading, workers: &Workers<'_>) -> Vec<LockWait> {
    let mut locks: BTreeMap<Option<(Pid, RemoteAddr)>, (Callers, f64)> = BTreeMap::new();
    let own = found.places.iter().filter(|(place, _)| place.reason == Reason::Lock);
    for (place, sum) in own.filter(|(place, _)| workers.has(place.thread)) {
        let (callers, waits) = locks.entry(place.object).or_default();
        *callers.entry(place.caller).or_default() += sum.time;
        *waits += sum.waits;
    }
    let lock = |(object, (callers, waits)): (Option<_>, (Callers, f64))| {
        let nanos = callers.values().sum();
        let top =
            callers.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).and_then(|(place, _)| place);
        let object = object.map(|object| object_name(profile, object));
        LockWait {
            place: NamedLocation { object, ..of(profile, top) },
            time: time(nanos, workers.sum.exact),
            waits: Metric::counted(waits.round(), "count"),
        }
    };
    let mut all: Vec<LockWait> = locks.into_iter().map(lock).collect();
    all.sort_by(|a, b| b.time.value.unwrap_or(0.0).total_cmp(&a.time.value.unwrap_or(0.0)));
    all
}
