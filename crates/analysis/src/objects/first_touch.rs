//! Who touched the pages of objects first: threads and functions, by page faults.
//!
//! What for: shares of each object's first page faults. What not: pages that were there before the recording, or that another object
//! left behind: no fault tells who touched them.
//!
//! Interval: Wilson's with the effective number of faults (Kish: a record may represent several).
//! Assumption: the first recorded fault of an object's page is its first touch. Later ones are not: copies on write, swapped pages.

use std::collections::{BTreeMap, HashSet};

use estimate::interval::{effective_count, wilson};
use facts::{Evidence, Fault, Metric};

use super::{ObjectId, Objects};
use crate::profile::Profile;
use crate::stack::{FunctionId, LocationId, NO_STACK};
use crate::threads::ThreadIndex;

const NO_FAULTS: &str =
    "no page faults with their addresses were recorded (`fathom doctor` says why)";
const NO_FAULT: &str =
    "no page fault was recorded there: its pages were there before, or hold other objects as well";

/// A thread that touched pages of an object first, in one function.
#[derive(Clone, PartialEq, Debug)]
pub struct FirstTouch {
    /// The thread.
    pub thread: ThreadIndex,
    /// A place of the function, where that is known.
    pub place: Option<LocationId>,
    /// Share of the object's first page faults, percent.
    pub share: Metric,
}

/// Why it is unknown.
pub(super) fn why_unknown(profile: &Profile<'_>) -> &'static str {
    if profile.recording.faults.is_empty() { NO_FAULTS } else { NO_FAULT }
}

/// Of each object with a recorded fault, those with the largest share first.
pub(super) fn first_touches(
    profile: &Profile<'_>,
    objects: &Objects,
) -> BTreeMap<ObjectId, Vec<FirstTouch>> {
    let page = profile.recording.run.host.page_bytes.max(1);
    let mut faults: Vec<&Fault> = profile.recording.faults.iter().collect();
    faults.sort_by_key(|fault| fault.time);
    let mut touched = HashSet::new();
    let mut found: BTreeMap<ObjectId, Vec<Toucher>> = BTreeMap::new();
    for fault in faults {
        let Some(thread) = profile.threads.find(fault.pid, fault.tid) else { continue };
        let object = objects.at(fault.pid, fault.address, fault.time).0;
        if !touched.insert((object, fault.pid, fault.address.0 / page)) {
            continue;
        }
        let stack = fault.stack.and_then(|id| profile.stacks.find(id));
        let place = profile.stacks.innermost_user(stack);
        let function = profile.stacks.places[place.index()].function;
        let touchers = found.entry(object).or_default();
        let known =
            touchers.iter_mut().find(|one| (one.thread, one.function) == (thread, function));
        let weight = fault.weight as f64;
        match known {
            Some(one) => one.add(weight),
            None => {
                let mut one =
                    Toucher { thread, function, place, faults: 0, sum: 0.0, squares: 0.0 };
                one.add(weight);
                touchers.push(one);
            }
        }
    }
    found.into_iter().map(|(object, touchers)| (object, shares(&touchers))).collect()
}

/// Weights of the first faults by one thread in one function.
struct Toucher {
    thread: ThreadIndex,
    function: FunctionId,
    place: LocationId,
    faults: u64,
    sum: f64,
    squares: f64,
}

impl Toucher {
    fn add(&mut self, weight: f64) {
        self.faults += 1;
        self.sum += weight;
        self.squares += weight * weight;
    }
}

fn shares(touchers: &[Toucher]) -> Vec<FirstTouch> {
    let all: f64 = touchers.iter().map(|one| one.sum).sum();
    let squares = touchers.iter().map(|one| one.squares).sum();
    let faults = touchers.iter().map(|one| one.faults).sum();
    let share = |one: &Toucher| {
        let share = one.sum / all.max(1.0);
        let (low, high) = wilson(share, effective_count(all, squares));
        let interval = (low * 100.0, high * 100.0);
        Metric::with_interval(Evidence::Sampled, share * 100.0, "percent", interval, faults)
    };
    let mut found: Vec<&Toucher> = touchers.iter().collect();
    found.sort_by(|a, b| b.sum.total_cmp(&a.sum));
    let found = found.into_iter();
    let touch = |one: &Toucher| FirstTouch {
        thread: one.thread,
        place: (one.place != NO_STACK).then_some(one.place),
        share: share(one),
    };
    found.map(touch).collect()
}

#[cfg(test)]
mod tests {
    use base::{Nanos, Pid, RemoteAddr, Tid};
    use facts::FaultKind;
    use testkit::recording::RecordingBuilder;

    use super::*;

    const PID: i32 = 7;

    fn fault(time: u64, tid: i32, page: u64, weight: u64) -> Fault {
        Fault {
            time: Nanos(time),
            pid: Pid(PID),
            tid: Tid(tid),
            address: RemoteAddr(0x10_0000 + page * 4096 + 8 * time),
            stack: None,
            weight,
            kind: FaultKind::Minor,
        }
    }

    /// Whoever comes to a page later, as after a copy on write, did not touch it first.
    #[test]
    fn the_first_fault_of_a_page_counts_for_as_many_as_it_represents() {
        let mut test = RecordingBuilder::new();
        test.thread(PID, 7, "main", 0.0, 1.0).thread(PID, 8, "worker", 0.0, 1.0);
        test.recording.run.host.page_bytes = 4096;
        test.recording.faults = vec![
            fault(9, 8, 0, 1),
            fault(1, 7, 0, 1),
            fault(2, 7, 1, 1),
            fault(3, 8, 2, 6),
            fault(4, 7, 2, 9),
        ];
        let recording = test.build();
        let profile = Profile::new(&recording);
        let found = first_touches(&profile, &Objects::new(&profile));
        let touches = &found[&Objects::unknown()];
        let threads = touches.iter().map(|one| profile.threads.get(one.thread).tid);
        assert_eq!(threads.collect::<Vec<_>>(), [Tid(8), Tid(7)]);
        let shares: Vec<_> = touches.iter().map(|one| one.share.value).collect();
        assert_eq!(shares, [Some(75.0), Some(25.0)]);
        assert_eq!(touches[0].place, None);
        let share = &touches[0].share;
        assert_eq!((share.samples, share.evidence), (3, Some(Evidence::Sampled)));
        assert!(share.low < Some(50.0) && share.high > Some(90.0), "{share:?}");
    }

    #[test]
    fn a_reason_is_given_where_it_is_unknown() {
        let mut test = RecordingBuilder::new();
        test.thread(PID, 7, "main", 0.0, 1.0);
        let nothing = test.build();
        assert_eq!(why_unknown(&Profile::new(&nothing)), NO_FAULTS);
        let recording = facts::Recording { faults: vec![fault(1, 7, 0, 1)], ..nothing };
        assert_eq!(why_unknown(&Profile::new(&recording)), NO_FAULT);
    }
}
