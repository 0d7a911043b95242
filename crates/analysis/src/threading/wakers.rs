//! Who ended waits: the time at each place divided like the waits there whose end was seen.
//!
//! What not: which of a waker's acts it was; its innermost own function is mostly enough (the one that unlocks).
//! Assumption: the ends that were seen are like those that were not. Where threads wake each other more often than the
//! collector looks, a wake by a thread of the program had two chances to be seen, one by others one.

use std::collections::BTreeMap;

use facts::Wake;

use super::{Reason, Threading, WaitPlace, WaitSum, reason, selected_share};
use crate::profile::Profile;
use crate::selection::Selection;
use crate::stack::PlaceId;
use crate::threads::ThreadIndex;

/// Who ended a wait.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum WokenBy {
    /// A thread of the program, in this innermost frame of the program's own.
    Thread(ThreadIndex, Option<PlaceId>),
    /// Nobody of the program: a timer, a device, another program.
    Others,
    /// It was not seen, or did not end within the recording.
    Unseen,
}

/// The places of `threading`, each with its time divided by who ended the waits there; the same selection as that.
#[must_use]
pub fn by_waker(
    profile: &Profile<'_>,
    selection: &Selection,
    threading: &Threading,
) -> Vec<(WaitPlace, WokenBy, WaitSum)> {
    let seen = seen(profile, selection);
    let mut divided = Vec::with_capacity(threading.places.len());
    for (place, sum) in &threading.places {
        let wakers = seen.get(place).into_iter().flatten();
        let (time, wakes) =
            wakers.clone().fold((0.0, 0.0), |all, (_, one)| (all.0 + one.0, all.1 + one.1));
        if time <= 0.0 {
            divided.push((*place, WokenBy::Unseen, *sum));
        }
        for (waker, one) in wakers.filter(|_| time > 0.0) {
            let part = WaitSum {
                time: sum.time * one.0 / time,
                waits: sum.waits * one.1 / wakes,
                seen: one.1.round() as u64,
            };
            divided.push((*place, *waker, part));
        }
    }
    divided
}

/// Time and number of the waits whose end was seen.
type Seen = BTreeMap<WaitPlace, BTreeMap<WokenBy, (f64, f64)>>;

fn seen(profile: &Profile<'_>, selection: &Selection) -> Seen {
    let mut seen = Seen::new();
    for wake in &profile.recording.wakes {
        let share = selected_share(selection, wake.time, wake.span);
        let Some(place) = place_of(profile, wake).filter(|_| share > 0.0) else { continue };
        let sum = seen.entry(place).or_default().entry(woken_by(profile, wake)).or_default();
        sum.0 += wake.waited.0 as f64 * share;
        sum.1 += wake.wakes as f64 * share;
    }
    seen
}

fn place_of(profile: &Profile<'_>, wake: &Wake) -> Option<WaitPlace> {
    let stack = wake.stack.and_then(|id| profile.stacks.find(id));
    let reason: Reason = reason::reason(&profile.stacks, stack);
    let object = wake.object.filter(|_| reason.has_object());
    Some(WaitPlace {
        thread: profile.threads.find(wake.pid, wake.tid)?,
        reason,
        object: object.map(|at| (wake.pid, at)),
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
