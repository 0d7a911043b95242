//! The flushes and fences of a burst, in the order of execution.
//!
//! What not: sums over bursts (`memory::flushes`).
//! Cost: code that flushes or fences goes through its loops iteration by iteration; stores of other code are taken line by line. A
//! program without flushes is not gone through at all.

use std::collections::{BTreeMap, BTreeSet};

use base::{IndexMap, IndexSet, Pid, RemoteAddr, Tid};
use facts::Burst;
use x86::Kind;

use crate::objects::{Extent, Objects, Part, Pieces, Window};
use crate::profile::Profile;
use crate::traced::{
    Execution, FenceIndex, LINE, Run, SiteIndex, Tool, TracedAccess, TracedBlock, TracedCode,
    TracedFence, flushes_line, is_flush, is_store,
};

/// A fence with more lines to wait for is none of many.
const FEW: usize = 2;
/// Fewer lines, one fence after the other, say nothing.
const LEAST_LINES: u64 = 8;
/// Instructions from one such fence to the next, at most: what computes longer has other things to do.
const MOST_BETWEEN: u64 = 400;
/// Lines from one to the next, at most: a page.
const MOST_STEP: i64 = 64;

/// An instruction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Operation {
    /// A flush, or a non-temporal store.
    Site(SiteIndex),
    /// A fence.
    Fence(FenceIndex),
}

/// How often what happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) flushes: u64,
    /// Those of lines that were not dirty.
    pub(crate) redundant: u64,
    /// Non-temporal stores.
    pub(crate) streamed: u64,
    pub(crate) fences: u64,
    /// Those with something to wait for.
    pub(crate) waiting: u64,
    /// Lines that these waited for.
    pub(crate) lines: u64,
    /// Those of them that wait alone.
    pub(crate) alone: u64,
}

/// What an instruction did with a part of an object in a burst.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub(crate) operation: Operation,
    /// None of a fence without anything to wait for.
    pub(crate) part: Option<Part>,
    /// What it waited for, or an access of the code that did it: says where the burst was.
    pub(crate) at: Option<SiteIndex>,
    pub(crate) counts: Counts,
}

/// A line, as far as the burst shows.
#[derive(Clone, Copy)]
struct Line {
    is_dirty: bool,
    /// This thread stored to it.
    is_own: bool,
}

/// Fences that wait alone, one after the other.
struct Alone {
    fence: FenceIndex,
    site: SiteIndex,
    part: Part,
    at: Option<SiteIndex>,
    last: u64,
    direction: i64,
    fences: u64,
    lines: u64,
}

/// Reads the records of bursts.
pub(crate) struct Watcher<'a> {
    code: &'a TracedCode,
    objects: (&'a Objects, Pieces),
    /// Somebody flushes lines.
    flushes: bool,
    number: usize,
    pid: Pid,
    window: Window,
    /// Processes with several threads; the one at hand has one.
    several: BTreeSet<Pid>,
    is_single: bool,
    lines: IndexMap<u64, Line>,
    last_part: Option<(Part, Extent)>,
    at: Option<SiteIndex>,
    /// Lines to wait for, and what made the first of them so.
    pending: IndexSet<u64>,
    first: Option<(SiteIndex, Part, u64)>,
    /// Instructions since the last fence.
    since: u64,
    alone: Option<Alone>,
    /// The last fence, until something is stored.
    fenced: Option<FenceIndex>,
    /// Which stores follow which fences, and how often each store ran.
    after: BTreeMap<(FenceIndex, SiteIndex), u64>,
    stores: IndexMap<SiteIndex, u64>,
    counts: BTreeMap<(Operation, Option<Part>), (Option<SiteIndex>, Counts)>,
}

/// How often a store was the first after a fence.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AfterFence {
    pub(crate) fence: FenceIndex,
    pub(crate) store: SiteIndex,
    pub(crate) times: u64,
    /// How often the store ran in all.
    pub(crate) of: u64,
}

/// What a burst shows.
pub(crate) struct OfBurst {
    pub(crate) number: usize,
    pub(crate) events: Vec<Event>,
    pub(crate) after_fences: Vec<AfterFence>,
}

impl Tool for Watcher<'_> {
    type OfBurst = OfBurst;

    fn begin(&mut self, burst: &Burst, number: usize) {
        self.number = number;
        self.pid = burst.pid;
        self.window = Window { start: burst.time, end: burst.time + burst.elapsed };
        self.is_single = !self.several.contains(&burst.pid);
        self.lines.clear();
        self.pending.clear();
        (self.last_part, self.at, self.first, self.alone) = (None, None, None, None);
        self.fenced = None;
        self.since = u64::MAX;
    }

    fn execute(&mut self, block: &TracedBlock, execution: &Execution<'_>) {
        if let Some(first) = block.accesses.first() {
            self.at = Some(first.site);
        }
        let kind = |access: &TracedAccess| self.code.sites[access.site.index()].access.kind;
        let orders = block.accesses.iter().any(|access| is_flush(kind(access)));
        let waits = |one: &TracedFence| !one.locked || !self.pending.is_empty();
        if execution.iterations() == 1 || !orders && !block.fences.iter().any(waits) {
            self.once(block, execution);
        } else {
            self.by_iteration(block, execution);
        }
    }

    fn end(&mut self, _: &Burst) -> Self::OfBurst {
        self.end_alone();
        let found = std::mem::take(&mut self.counts).into_iter();
        let event = |((operation, part), (at, counts))| Event { operation, part, at, counts };
        let events = found.map(event).collect();
        let stores = std::mem::take(&mut self.stores);
        let after = std::mem::take(&mut self.after).into_iter();
        let after = after.map(|((fence, store), times)| {
            let of = stores.get(&store).copied().unwrap_or(times);
            AfterFence { fence, store, times, of }
        });
        OfBurst { number: self.number, events, after_fences: after.collect() }
    }
}

fn with_several_threads(profile: &Profile<'_>) -> BTreeSet<Pid> {
    let known = profile.threads.all().iter().map(|one| (one.pid, one.tid));
    let traced = profile.recording.bursts.iter().map(|one| (one.pid, one.tid));
    let all: BTreeSet<(Pid, Tid)> = known.chain(traced).collect();
    let all: Vec<Pid> = all.into_iter().map(|(pid, _)| pid).collect();
    all.windows(2).filter(|two| two[0] == two[1]).map(|two| two[0]).collect()
}

impl<'a> Watcher<'a> {
    pub(crate) fn new(
        profile: &Profile<'_>,
        code: &'a TracedCode,
        objects: (&'a Objects, Pieces),
    ) -> Watcher<'a> {
        Watcher {
            code,
            objects,
            flushes: code.sites.iter().any(|site| flushes_line(site.access.kind)),
            number: 0,
            pid: Pid(0),
            window: Window { start: base::Nanos(0), end: base::Nanos(0) },
            several: with_several_threads(profile),
            is_single: false,
            lines: IndexMap::default(),
            last_part: None,
            at: None,
            pending: IndexSet::default(),
            first: None,
            since: u64::MAX,
            alone: None,
            fenced: None,
            after: BTreeMap::new(),
            stores: IndexMap::default(),
            counts: BTreeMap::new(),
        }
    }

    /// A block that ran once, or one whose order makes no difference.
    fn once(&mut self, block: &TracedBlock, execution: &Execution<'_>) {
        let mut fences = block.fences.iter().peekable();
        let runs = |at: usize| execution.times(at) > 0;
        for access in &block.accesses {
            while let Some(one) = fences.next_if(|one| one.instruction < access.instruction) {
                self.come_to(block, one);
            }
            for touch in execution.touches(access) {
                match touch.run() {
                    Some(run) => self.access(access.site, &run),
                    None => self.access_unknown(access.site),
                }
            }
        }
        fences.filter(|one| runs(one.instruction)).for_each(|one| self.come_to(block, one));
        let length = block.ways.first().copied().unwrap_or(0) as u64;
        let before = execution.iterations().saturating_sub(1).saturating_mul(length);
        self.pass(before.saturating_add(execution.executed() as u64));
    }

    /// A loop, in the order in which it ran.
    fn by_iteration(&mut self, block: &TracedBlock, execution: &Execution<'_>) {
        let whole_run = |access: &TracedAccess| {
            let mut touches = execution.touches(access);
            let run = touches.next()?.run()?;
            let all = run.count == execution.times(access.instruction) && touches.next().is_none();
            all.then_some(run)
        };
        let runs: Vec<Option<Run>> = block.accesses.iter().map(whole_run).collect();
        let length = block.ways.first().copied().unwrap_or(0) as u64;
        for iteration in 0..execution.iterations() {
            let runs_now = |at: usize| iteration < execution.times(at);
            let mut fences = block.fences.iter().filter(|one| runs_now(one.instruction)).peekable();
            for (access, run) in block.accesses.iter().zip(&runs) {
                while let Some(one) = fences.next_if(|one| one.instruction < access.instruction) {
                    self.come_to(block, one);
                }
                if !runs_now(access.instruction) {
                    continue;
                }
                match run {
                    Some(run) => {
                        let now = Run { start: run.at(iteration), count: 1, ..*run };
                        self.access(access.site, &now);
                    }
                    None => self.access_unknown(access.site),
                }
            }
            fences.for_each(|one| self.come_to(block, one));
            self.pass(length);
        }
    }

    fn pass(&mut self, instructions: u64) {
        self.since = self.since.saturating_add(instructions);
    }

    fn access(&mut self, site: SiteIndex, run: &Run) {
        let kind = self.code.sites[site.index()].access.kind;
        if is_store(kind) {
            let count = self.stores.entry(site).or_default();
            *count = count.saturating_add(run.count);
            if let Some(fence) = self.fenced.take() {
                *self.after.entry((fence, site)).or_default() += 1;
            }
        }
        match kind {
            Kind::Write | Kind::ReadWrite if self.flushes => {
                let lines = &mut self.lines;
                run.for_lines(|line, _| {
                    lines.insert(line, Line { is_dirty: true, is_own: true });
                });
            }
            Kind::Flush | Kind::WriteBack => {
                for step in 0..run.count {
                    self.flush(site, run.at(step));
                }
            }
            Kind::StreamingWrite => self.stream(site, run),
            _ => {}
        }
    }

    /// At an unknown address.
    fn access_unknown(&mut self, site: SiteIndex) {
        let kind = self.code.sites[site.index()].access.kind;
        if matches!(kind, Kind::Write | Kind::ReadWrite) || is_flush(kind) {
            self.lines.clear();
        }
    }

    fn flush(&mut self, site: SiteIndex, address: u64) {
        let line = address / LINE;
        let clean = Line { is_dirty: false, is_own: false };
        let known = self.lines.get_mut(&line);
        let redundant =
            known.as_ref().is_some_and(|one| !one.is_dirty && (one.is_own || self.is_single));
        match known {
            Some(known) => known.is_dirty = false,
            None => _ = self.lines.insert(line, clean),
        }
        let part = self.wait_for(site, address, line);
        let counts = self.counts(Operation::Site(site), Some(part), Some(site));
        counts.flushes += 1;
        counts.redundant += u64::from(redundant);
    }

    fn stream(&mut self, site: SiteIndex, run: &Run) {
        let mut touched = Vec::new();
        run.for_lines(|line, _| touched.push(line));
        for line in touched {
            if self.flushes {
                // What a cache had of it is written out, and the rest goes past it.
                self.lines.insert(line, Line { is_dirty: false, is_own: true });
            }
            self.wait_for(site, line * LINE, line);
        }
        let part = self.part(run.start);
        let counts = self.counts(Operation::Site(site), Some(part), Some(site));
        counts.streamed = counts.streamed.saturating_add(run.count);
    }

    /// The next fence has this to wait for.
    fn wait_for(&mut self, site: SiteIndex, address: u64, line: u64) -> Part {
        let part = self.part(address);
        self.pending.insert(line);
        self.first.get_or_insert((site, part, line));
        part
    }

    fn come_to(&mut self, block: &TracedBlock, one: &TracedFence) {
        if !one.locked {
            return self.fence(one.fence);
        }
        if self.pending.is_empty() {
            return;
        }
        self.fence(one.fence);
        // It waits itself, and no store after it.
        self.fenced = None;
        let own = block.accesses.iter().find(|access| access.instruction == one.instruction);
        if let Some(access) = own {
            *self.after.entry((one.fence, access.site)).or_default() += 1;
        }
    }

    fn fence(&mut self, fence: FenceIndex) {
        let lines = self.pending.len();
        let first = self.first.take();
        self.pending.clear();
        self.fenced = Some(fence);
        let part = first.map(|(_, part, _)| part);
        // It is counted where what it waits for is.
        let at = first.map(|(site, ..)| site).or(self.at);
        let counts = self.counts(Operation::Fence(fence), part, at);
        counts.fences += 1;
        let Some((site, part, line)) = first else { return };
        counts.waiting += 1;
        counts.lines += lines as u64;
        let step = |before: &Alone| line.wrapping_sub(before.last).cast_signed();
        let since = std::mem::replace(&mut self.since, 0);
        let follows = |before: &&mut Alone| {
            let step = step(before);
            let same = before.fence == fence && before.site == site;
            let on = step.checked_abs().is_some_and(|step| step <= MOST_STEP)
                && step * before.direction >= 0;
            lines <= FEW && same && on && since <= MOST_BETWEEN
        };
        if let Some(before) = self.alone.as_mut().filter(follows) {
            let step = step(before);
            before.fences += 1;
            if step != 0 {
                before.lines += 1;
                (before.direction, before.last) = (step.signum(), line);
            }
            return;
        }
        self.end_alone();
        let new = || Alone { fence, site, part, at, last: line, direction: 0, fences: 1, lines: 1 };
        self.alone = (lines <= FEW).then(new);
    }

    fn end_alone(&mut self) {
        let Some(one) = self.alone.take().filter(|one| one.lines >= LEAST_LINES) else { return };
        self.counts(Operation::Fence(one.fence), Some(one.part), one.at).alone += one.fences;
    }

    fn part(&mut self, address: u64) -> Part {
        let address = RemoteAddr(address);
        if let Some((part, _)) = self.last_part.filter(|(_, extent)| extent.has(address)) {
            return part;
        }
        let (objects, pieces) = self.objects;
        let found = objects.part(self.pid, address, self.window, pieces);
        self.last_part = Some(found);
        found.0
    }

    fn counts(
        &mut self,
        operation: Operation,
        part: Option<Part>,
        at: Option<SiteIndex>,
    ) -> &mut Counts {
        &mut self.counts.entry((operation, part)).or_insert((at, Counts::default())).1
    }
}
