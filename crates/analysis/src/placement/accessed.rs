//! What bursts accessed, in stretches of objects, with the thread that touched each page first: what the what-if lays out anew.
//!
//! What not: where it goes (the model).

use std::collections::{BTreeMap, HashMap};

use base::{Nanos, Pid, RemoteAddr};
use facts::Burst;
use x86::Kind;

use super::first_touch::{Faults, Toucher};
use super::recorded::time_per_burst;
use crate::findings::figures::nodes::TouchedPages;
use crate::objects::{HUGE_PAGE, ObjectId, Objects, Window};
use crate::profile::Profile;
use crate::threads::ThreadIndex;
use crate::traced::{Execution, Tool, TracedBlock, TracedCode, in_order};

/// An object is looked at in so many stretches at most, none smaller than this.
const STRETCHES: u64 = 32;
const LEAST_STRETCH: u64 = 64 << 10;
/// No block or mapping is so large.
const LARGEST_OBJECT: u64 = 1 << 44;

/// Part of an object that is looked at as one.
pub(super) type Stretch = (Pid, ObjectId, u64);

/// What a burst accessed in a stretch whose pages one thread touched first.
pub(super) struct Accessed {
    pub(super) burst: usize,
    pub(super) stretch: Stretch,
    pub(super) toucher: Option<Toucher>,
    pub(super) lines: f64,
}

/// A traced burst.
pub(super) struct OfBurst {
    pub(super) thread: ThreadIndex,
    pub(super) time: Nanos,
    elapsed: Nanos,
}

/// What all bursts accessed.
pub(super) struct Watcher<'a> {
    profile: &'a Profile<'a>,
    code: &'a TracedCode,
    pub(super) objects: &'a Objects,
    faults: Faults,
    /// Of the burst at hand.
    pages: TouchedPages,
    written: TouchedPages,
    pub(super) found: Vec<Accessed>,
    pub(super) bursts: Vec<OfBurst>,
    /// By object, the last burst that stored to it.
    pub(super) stores: HashMap<ObjectId, Nanos>,
}

impl Tool for Watcher<'_> {
    type OfBurst = ();

    fn begin(&mut self, _: &Burst, _: usize) {
        self.pages = TouchedPages::default();
        self.written = TouchedPages::default();
    }

    fn execute(&mut self, block: &TracedBlock, execution: &Execution<'_>) {
        for access in &block.accesses {
            let kind = self.code.sites[access.site.index()].access.kind;
            let stores = matches!(kind, Kind::Write | Kind::ReadWrite | Kind::StreamingWrite);
            execution.touches(access).for_each(|touch| {
                self.pages.add(touch);
                if stores {
                    self.written.add(touch);
                }
            });
        }
    }

    fn end(&mut self, burst: &Burst) {
        let Some(thread) = self.profile.threads.find(burst.pid, burst.tid) else { return };
        let end = burst.time + burst.elapsed;
        let window = Window { start: burst.time, end };
        let number = self.bursts.len();
        self.bursts.push(OfBurst { thread, time: burst.time, elapsed: burst.elapsed });
        let mut sums: BTreeMap<(Stretch, Option<Toucher>), f64> = BTreeMap::new();
        for (first, lines) in self.pages.drain() {
            let (located, extent) = self.objects.locate(burst.pid, RemoteAddr(first), window);
            let size = extent.last.0 - extent.start.0;
            // Of memory that nothing was recorded of, only the neighbourhood is alike.
            let whole = size < LARGEST_OBJECT;
            let within = |fault: u64| match whole {
                true => extent.has(RemoteAddr(fault)),
                false => fault.abs_diff(first) < HUGE_PAGE,
            };
            let toucher = self.faults.toucher(burst.pid, first, within, end);
            let stretch = if whole { (size / STRETCHES).max(LEAST_STRETCH) } else { HUGE_PAGE };
            // Its address tells blocks of one object apart.
            let place = first - (first - extent.start.0) % stretch;
            let key = ((burst.pid, located.object, place), toucher);
            *sums.entry(key).or_default() += lines;
        }
        for (first, _) in self.written.drain() {
            let object = self.objects.locate(burst.pid, RemoteAddr(first), window).0.object;
            let last = self.stores.entry(object).or_insert(burst.time);
            *last = (*last).max(burst.time);
        }
        let all = sums.into_iter().map(|((stretch, toucher), lines)| Accessed {
            burst: number,
            stretch,
            toucher,
            lines,
        });
        self.found.extend(all);
    }
}

impl<'a> Watcher<'a> {
    /// Goes through the bursts; each of them stands for its part of its thread's time.
    pub(super) fn new(
        profile: &'a Profile<'a>,
        code: &'a TracedCode,
        objects: &'a Objects,
    ) -> Watcher<'a> {
        let mut watcher = Watcher {
            profile,
            code,
            objects,
            faults: Faults::new(profile),
            pages: TouchedPages::default(),
            written: TouchedPages::default(),
            found: Vec::new(),
            bursts: Vec::new(),
            stores: HashMap::new(),
        };
        in_order(profile.recording, code, &mut watcher);
        watcher.expand();
        watcher
    }

    fn expand(&mut self) {
        let bursts = self.bursts.iter().map(|burst| (burst.thread, burst.elapsed));
        let factors = time_per_burst(self.profile, bursts);
        let of = |burst: usize| factors.get(&self.bursts[burst].thread).copied().unwrap_or(1.0);
        self.found.iter_mut().for_each(|one| one.lines *= of(one.burst));
    }
}
