//! Who touched a page first: the thread of the recorded page fault nearest to it.
//!
//! What not: pages that were there before the recording. Assumption: a sampled fault represents the faults around it. Between faults of two
//! threads, either may have touched a page first: nothing tells where the pages of one end.

use std::collections::HashMap;

use base::{Nanos, Pid};

use crate::profile::Profile;
use crate::threads::ThreadIndex;

/// Faults are searched so far to both sides: the nearer ones are of a later use of the memory.
const MOST_FAULTS: usize = 256;
const BASE_PAGE: u64 = 4096;

/// A recorded page fault: the address comes first, for the order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct FirstTouch {
    address: u64,
    time: Nanos,
    thread: ThreadIndex,
    /// Bytes of the pages that it stands for, those around it most likely.
    around: u64,
}

/// Who touched a page first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Toucher {
    /// The thread of the nearest fault.
    pub(super) thread: ThreadIndex,
    /// That of the nearest fault on the other side, if it is another one: then it may be that.
    pub(super) or: Option<ThreadIndex>,
}

/// Page faults by address.
pub(super) struct Faults(HashMap<Pid, Vec<FirstTouch>>);

impl Faults {
    pub(super) fn new(profile: &Profile<'_>) -> Faults {
        let mut of: HashMap<Pid, Vec<FirstTouch>> = HashMap::new();
        for fault in &profile.recording.faults {
            if let Some(thread) = profile.threads.find(fault.pid, fault.tid) {
                let around = fault.weight.saturating_mul(BASE_PAGE);
                let (address, time) = (fault.address.0, fault.time);
                let one = FirstTouch { address, time, thread, around };
                of.entry(fault.pid).or_default().push(one);
            }
        }
        of.values_mut().for_each(|faults| faults.sort_unstable());
        Faults(of)
    }

    /// The first toucher of an address's page: the thread of the nearest fault before `until` in the same object (`within`) or
    /// page. Where none was recorded there, of one that represents so many that it reaches the address.
    pub(super) fn toucher(
        &self,
        pid: Pid,
        address: u64,
        within: impl Fn(u64) -> bool,
        until: Nanos,
    ) -> Option<Toucher> {
        let faults = self.0.get(&pid)?;
        let same = |one: &FirstTouch| {
            within(one.address) || one.address / BASE_PAGE == address / BASE_PAGE
        };
        let reaches = |one: &FirstTouch| one.address.abs_diff(address) <= one.around;
        let before = |one: &FirstTouch| one.time <= until;
        // Faults of other objects lie beyond those of this one: the search ends there.
        nearest(faults, address, same, before)
            .or_else(|| nearest(faults, address, |_| true, |one| before(one) && reaches(one)))
    }
}

/// Who had the one nearest to the address among those that fit, as far as `on` holds; the last of several there.
fn nearest(
    faults: &[FirstTouch],
    address: u64,
    on: impl Fn(&FirstTouch) -> bool,
    fits: impl Fn(&FirstTouch) -> bool,
) -> Option<Toucher> {
    let (before, behind) = faults.split_at(faults.partition_point(|one| one.address <= address));
    let below =
        before.iter().rev().take(MOST_FAULTS).take_while(|one| on(one)).find(|one| fits(one));
    let first = behind.iter().take(MOST_FAULTS).take_while(|one| on(one)).find(|one| fits(one));
    let there = |first: &FirstTouch| {
        let same = behind.iter().take_while(|one| one.address <= first.address);
        same.filter(|one| fits(one)).last()
    };
    let above = first.and_then(there);
    let mut around: Vec<&FirstTouch> = below.into_iter().chain(above).collect();
    around.sort_by_key(|one| one.address.abs_diff(address));
    let (first, other) = (*around.first()?, around.get(1));
    let is_same_page = first.address / BASE_PAGE == address / BASE_PAGE;
    let or = other.map(|one| one.thread).filter(|or| *or != first.thread && !is_same_page);
    Some(Toucher { thread: first.thread, or })
}
