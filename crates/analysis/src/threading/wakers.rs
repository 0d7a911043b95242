//! Which threads ended waits: of the time at each place, the parts that a thread of the program ended; other causes ended the rest.
//!
//! What not: which action of the waker it was; its innermost own function mostly suffices (the one that unlocks).
//! Assumption: the waits with a stack, whose parts are known, are like those without.

use std::collections::BTreeMap;

use base::{Pid, RemoteAddr, StackId, Tid};
use facts::{WaitKind, Wake};

use super::mpi::MpiTable;
use super::{Reason, Threading, WaitPlace, WaitSum, reason};
use crate::profile::Profile;
use crate::selection::Selection;
use crate::stack::LocationId;
use crate::threads::ThreadIndex;

/// What ended a wait.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum WokenBy {
    /// A thread of the program, in this innermost frame of the program's own.
    Thread(ThreadIndex, Option<LocationId>),
    /// Nobody of the program: a timer, a device, another program.
    Others,
    /// It was not recorded, did not end within the recording, or the end of a thread did, which is not always seen.
    Unseen,
}

/// Waits at a place that one waker ended.
#[derive(Clone, Debug)]
pub struct EndedWaits {
    /// Where threads waited.
    pub place: WaitPlace,
    /// The waker.
    pub by: WokenBy,
    /// These waits.
    pub sum: WaitSum,
}

/// The places of `threading`, each with its time divided by who ended the waits there; the same selection as that.
#[must_use]
pub fn by_waker(
    profile: &Profile<'_>,
    selection: &Selection,
    threading: &Threading,
) -> Vec<EndedWaits> {
    let seen = seen(profile, selection);
    let mut divided = Vec::with_capacity(threading.places.len());
    for (place, sum) in &threading.places {
        let Some(at) = seen.get(place).filter(|at| at.all.time > 0.0) else {
            divided.push(EndedWaits { place: *place, by: WokenBy::Unseen, sum: *sum });
            continue;
        };
        let mut parts = at.wakers.clone();
        let known = |of: fn(&Part) -> f64| parts.values().map(of).sum::<f64>();
        // Thinned records represent others, a few more or less than there were.
        let all = Part {
            time: at.all.time.max(known(|part| part.time)),
            waits: at.all.waits.max(known(|part| part.waits)),
        };
        let rest = Part {
            time: all.time - known(|part| part.time),
            waits: all.waits - known(|part| part.waits),
        };
        let by_others =
            if place.reason == Reason::Join { WokenBy::Unseen } else { WokenBy::Others };
        if rest.time > all.time * 1e-9 {
            parts.entry(by_others).or_default().add(&rest);
        }
        for (by, part) in parts {
            let (time, waits) =
                (sum.time * part.time / all.time, sum.waits * part.waits / all.waits.max(1.0));
            divided.push(EndedWaits { place: *place, by, sum: WaitSum { time, waits, seen: 0 } });
        }
    }
    divided
}

#[derive(Clone, Copy, Default)]
struct Part {
    time: f64,
    waits: f64,
}

impl Part {
    fn add(&mut self, other: &Part) {
        self.time += other.time;
        self.waits += other.waits;
    }
}

/// The waits at a place, and those of them that are known to have been ended by whom.
#[derive(Default)]
struct PlaceWaits {
    all: Part,
    wakers: BTreeMap<WokenBy, Part>,
}

fn seen(profile: &Profile<'_>, selection: &Selection) -> BTreeMap<WaitPlace, PlaceWaits> {
    let mut seen: BTreeMap<WaitPlace, PlaceWaits> = BTreeMap::new();
    let recording = profile.recording;
    if recording.wakes.is_empty() {
        return seen;
    }
    let end = profile.elapsed();
    let mut mpi = MpiTable::new(&profile.stacks);
    for wait in recording.waits.iter().filter(|wait| wait.kind == WaitKind::Blocked) {
        let Some(place) =
            place_of(profile, &mut mpi, (wait.pid, wait.tid, wait.stack, wait.object))
        else {
            continue;
        };
        let share = selection.share(place.thread, wait.time, wait.span);
        let part = Part { time: wait.waited.0 as f64 * share, waits: wait.waits as f64 * share };
        let at = seen.entry(place).or_default();
        at.all.add(&part);
        // A wait that lasts until the end has no waker. Waits summed in a window are shorter than it.
        if wait.waited == wait.span && wait.time + wait.span >= end {
            at.wakers.entry(WokenBy::Unseen).or_default().add(&part);
        }
    }
    for wake in &recording.wakes {
        let Some(place) =
            place_of(profile, &mut mpi, (wake.pid, wake.tid, wake.stack, wake.object))
        else {
            continue;
        };
        let share = selection.share(place.thread, wake.time, wake.span);
        let part = Part { time: wake.waited.0 as f64 * share, waits: wake.wakes as f64 * share };
        let at = seen.entry(place).or_default();
        at.wakers.entry(woken_by(profile, wake)).or_default().add(&part);
    }
    seen
}

/// The thread that waited, with its stack and object.
type Waiting = (Pid, Tid, Option<StackId>, Option<RemoteAddr>);

fn place_of(
    profile: &Profile<'_>,
    mpi: &mut MpiTable<'_>,
    (pid, tid, stack, object): Waiting,
) -> Option<WaitPlace> {
    let stack = stack.and_then(|id| profile.stacks.find(id));
    let reason = reason::reason(&profile.stacks, mpi, stack);
    let object = reason.object(object);
    Some(WaitPlace {
        thread: profile.threads.find(pid, tid)?,
        reason,
        object: object.map(|at| (pid, at)),
        caller: reason::caller(&profile.stacks, stack),
        stack,
    })
}

fn woken_by(profile: &Profile<'_>, wake: &Wake) -> WokenBy {
    let Some(waker) = wake.waker else { return WokenBy::Others };
    let stack = waker.stack.and_then(|id| profile.stacks.find(id));
    match profile.threads.find(waker.pid, waker.tid) {
        Some(thread) => WokenBy::Thread(thread, reason::caller(&profile.stacks, stack)),
        None => WokenBy::Others,
    }
}
