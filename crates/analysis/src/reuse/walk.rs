//! Every burst's accesses in order, through the stacks of lines, small pages and large pages.
//!
//! What for: records become runs ([`Stream`]) once, for all three stacks. What not: estimates.
//! Left out: flushes and non-temporal stores, which do not leave a line in a cache. Prefetches touch lines, but count as no row's
//! accesses. Instruction fetches and page walks are not traced.
//! Bounds: at most [`MOST_BURSTS`] bursts are used, evenly spaced, and [`MOST_EVENTS`] events of each, so that a recording of
//! hours, or a hostile one, takes seconds.

use base::{Nanos, Pid, Tid};
use facts::{Burst, Recording};
use x86::Kind;

use super::events::{Stream, run};
use super::lru::{KeySet, MOST_KEYS};
use super::tally::{Level, OfBurst, Tally};
use crate::objects::UnitRows;
use crate::traced::{
    Execution, SiteIndex, Tool, Touch, TracedBlock, TracedCode, stream, traced_bursts,
};

/// Bursts that are gone through.
pub(super) const MOST_BURSTS: usize = 400;
/// Events of one burst and size of unit. A burst of 3 ms that enters a new line every 0.2 ns has fewer.
const MOST_EVENTS: u64 = 1 << 24;
/// A summarised loop's irregular accesses are known for this many iterations (`traced::address`).
const EVALUATED: u64 = 256;
/// Pages are followed without sampling up to here: 4 GB of small ones.
const MOST_PAGES: usize = 1 << 20;

/// What to do.
pub(super) struct Question<'a> {
    pub(super) code: &'a TracedCode,
    /// Whether a burst is asked for.
    pub(super) chosen: &'a (dyn Fn(&Burst) -> bool + Sync),
    /// In units, rising; none where a size of unit does not matter.
    pub(super) lines: &'a [usize],
    pub(super) small_pages: &'a [usize],
    pub(super) large_pages: &'a [usize],
}

/// The pages that a burst touched.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Pages {
    pub(super) time: Nanos,
    pub(super) pid: Pid,
    pub(super) tid: Tid,
    pub(super) small: KeySet,
    pub(super) large: KeySet,
    /// Some pages are missing: addresses are unknown, or there were too many.
    pub(super) partial: bool,
}

/// The result of the pass.
#[derive(Default)]
pub(super) struct Walked {
    /// By row, in lines, small and large pages.
    pub(super) tallies: [Vec<Tally>; 3],
    pub(super) pages: Vec<Pages>,
    /// Bursts that are asked for, of which `pages` has some.
    pub(super) bursts: usize,
}

impl Walked {
    /// Gives the rows that never came up empty tallies, so that there are as many.
    pub(super) fn complete(&mut self, rows: usize) {
        self.tallies.iter_mut().for_each(|level| level.resize_with(rows, Tally::default));
    }
}

/// Goes through the bursts, and files what they do under these rows, as far as they are asked for.
pub(super) fn walk<'a>(
    recording: &Recording,
    question: &Question<'a>,
    rows: impl Fn() -> UnitRows<'a> + Sync,
) -> Walked {
    let asked = |burst: &&Burst| {
        burst.flavour == facts::BurstFlavour::Trace
            && !burst.records_lost
            && (question.chosen)(burst)
    };
    let asked_for = recording.bursts.iter().filter(asked).count();
    let every = asked_for.div_ceil(MOST_BURSTS).max(1);
    let bursts = traced_bursts(recording, question.code).filter(|burst| (question.chosen)(burst));
    let bursts: Vec<_> = bursts.step_by(every).collect();
    let walker = || Walker {
        code: question.code,
        rows: rows(),
        streams: Vec::new(),
        partial: false,
        budgets: [0; 3],
        levels: [
            Level::new(6, question.lines, MOST_KEYS, false),
            Level::new(12, question.small_pages, MOST_PAGES, true),
            Level::new(21, question.large_pages, MOST_PAGES, true),
        ],
    };
    let mut walked = Walked { bursts: asked_for, ..Walked::default() };
    stream(recording, question.code, &bursts, walker, |_, (levels, pages)| {
        walked.pages.push(pages);
        for (tallies, rows) in walked.tallies.iter_mut().zip(levels) {
            for (row, of_burst) in rows {
                if row >= tallies.len() {
                    tallies.resize_with(row + 1, Tally::default);
                }
                tallies[row].add(of_burst);
            }
        }
    });
    walked
}

struct Walker<'a> {
    code: &'a TracedCode,
    rows: UnitRows<'a>,
    /// Of the record at hand.
    streams: Vec<Stream>,
    partial: bool,
    budgets: [u64; 3],
    /// Lines, small and large pages.
    levels: [Level; 3],
}

impl Tool for Walker<'_> {
    /// What rows saw, by size of unit, and pages.
    type OfBurst = ([Vec<(usize, OfBurst)>; 3], Pages);

    fn begin(&mut self, burst: &Burst, number: usize) {
        self.rows.begin(burst, number);
        self.partial = false;
        self.budgets = [MOST_EVENTS; 3];
    }

    fn execute(&mut self, block: &TracedBlock, execution: &Execution<'_>) {
        self.streams.clear();
        for access in &block.accesses {
            let kind = self.code.sites[access.site.index()].access.kind;
            let asked = match kind {
                Kind::Read | Kind::Write | Kind::ReadWrite | Kind::StreamingRead => true,
                Kind::Prefetch | Kind::PrefetchWrite => false,
                Kind::StreamingWrite | Kind::Flush | Kind::WriteBack | Kind::Demote => continue,
            };
            let owner = asked.then_some(access.site);
            let first = self.streams.len();
            execution.touches(access).for_each(|touch| self.add(touch, owner, access.instruction));
            if execution.iterations() > 1 {
                spread(&mut self.streams[first..], execution.times(access.instruction));
            }
            if asked {
                self.file(first, access.site);
            }
        }
        let levels = self.levels.iter_mut().zip(&mut self.budgets);
        let asked = levels.filter(|(level, _)| level.is_asked());
        for (level, budget) in asked {
            run(&self.streams, level.shift, budget, level);
        }
    }

    fn end(&mut self, burst: &Burst) -> Self::OfBurst {
        let stacks = [&self.levels[1].stack, &self.levels[2].stack];
        let sampled = stacks.iter().any(|stack| stack.weight() > 1.0);
        let [small, large] = stacks.map(|stack| stack.keys().collect());
        let pages = Pages {
            time: burst.time,
            pid: burst.pid,
            tid: burst.tid,
            small,
            large,
            partial: self.partial || sampled || self.budgets.contains(&0),
        };
        (self.levels.each_mut().map(Level::end_burst), pages)
    }
}

impl Walker<'_> {
    /// Of a site with a row, or of one without.
    fn add(&mut self, touch: Touch, owner: Option<SiteIndex>, group: usize) {
        let row = None;
        let (stream, unknown) = match touch {
            Touch::Run { start, stride, count, bytes } => {
                let stream = Stream { row, start, stride, count, bytes, iteration: 0, group };
                (stream.is_sound().then_some(stream), count)
            }
            Touch::AtLeast { start, bytes } => {
                let stream = Stream { row, start, stride: 0, count: 1, bytes, iteration: 0, group };
                self.partial = true;
                (stream.is_sound().then_some(stream), 1)
            }
            Touch::Unknown { count } => (None, count),
        };
        match stream {
            Some(stream) => self.streams.push(stream),
            None => {
                self.partial = true;
                let (levels, touch) = (&mut self.levels, Touch::Unknown { count: unknown });
                let Some(site) = owner else { return };
                self.rows.divide(site, touch, |_, rows, _, _| {
                    for row in rows.iter().flatten().copied() {
                        levels.iter_mut().for_each(|level| level.unknown(row, unknown));
                    }
                });
            }
        }
    }

    /// Files the streams of a site, from `first` on, under its rows: one that goes through several objects becomes several,
    /// each of which begins where the one before ends.
    fn file(&mut self, first: usize, site: SiteIndex) {
        for at in first..self.streams.len() {
            let stream = self.streams[at];
            let Stream { start, stride, count, bytes, .. } = stream;
            let (streams, mut is_first) = (&mut self.streams, true);
            self.rows.divide(
                site,
                Touch::Run { start, stride, count, bytes },
                |_, rows, before, part| {
                    let Touch::Run { start, count, .. } = part else { return };
                    let row = rows.first().copied().flatten();
                    let iteration = stream.iteration.saturating_add(before);
                    let part = Stream { row, start, count, iteration, ..stream };
                    match std::mem::take(&mut is_first) {
                        true => streams[at] = part,
                        false => streams.push(part),
                    }
                },
            );
        }
    }
}

/// The streams of one access of a loop: they run concurrently with those of the others, and where there are several (a gather's
/// lanes, a masked access that was off now and then) they are spread evenly over the iterations.
fn spread(streams: &mut [Stream], iterations: u64) {
    let several = streams.len() as u64;
    for (number, stream) in (0u64..).zip(streams) {
        stream.group = 0;
        if several > 1 {
            stream.iteration = number * iterations.min(EVALUATED) / several;
        }
    }
}
