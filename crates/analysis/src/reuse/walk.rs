//! Every burst's accesses in order, through the stacks of lines, small pages and large pages.
//!
//! What for: turning records into runs ([`Stream`]) once per record, for all three. What not: estimates.
//! Left out: flushes and non-temporal stores, which do not leave a line in a cache. Prefetches touch lines, but are
//! nobody's accesses. Instruction fetches and page walks are not traced.
//! Bounds: at most [`MOST_BURSTS`] bursts are gone through, evenly chosen, and [`MOST_EVENTS`] events of each, so that a
//! recording of hours takes seconds, and a hostile one as well.

use base::{Nanos, Pid, Tid};
use facts::{Burst, Recording};
use x86::Kind;

use super::events::{Stream, run};
use super::lru::{KeySet, MOST_KEYS};
use super::tally::Level;
use crate::traced::{Damage, Execution, Observer, Touch, TracedBlock, TracedCode, replay};

/// Bursts that are gone through.
pub(super) const MOST_BURSTS: usize = 400;
/// Events of one burst and size of unit. A burst of 3 ms that entered a new line every 0.2 ns would not have so many.
const MOST_EVENTS: u64 = 1 << 24;
/// A summarised loop's irregular accesses are known for so many iterations (`traced::address`).
const EVALUATED: u64 = 256;
/// Pages are followed without sampling up to here: 4 GB of small ones.
const MOST_PAGES: usize = 1 << 20;

/// What to do.
pub(super) struct Question<'a> {
    pub(super) code: &'a TracedCode,
    /// The row of each site; `None` for those that are not asked for.
    pub(super) row_of_site: Vec<Option<usize>>,
    pub(super) rows: usize,
    /// Whether a burst is asked for.
    pub(super) chosen: &'a dyn Fn(&Burst) -> bool,
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
pub(super) struct Walked {
    pub(super) lines: Level,
    pub(super) small_pages: Level,
    pub(super) large_pages: Level,
    pub(super) pages: Vec<Pages>,
    /// Bursts that are asked for, of which `pages` has some.
    pub(super) bursts: usize,
    pub(super) damage: Damage,
}

/// Goes through the bursts.
pub(super) fn walk(recording: &Recording, question: &Question<'_>) -> Walked {
    let asked = |burst: &&Burst| {
        burst.flavour == facts::BurstFlavour::Trace
            && !burst.records_lost
            && (question.chosen)(burst)
    };
    let bursts = recording.bursts.iter().filter(asked).count();
    let level = |shift, capacities: &[usize], most, counts_units| {
        Level::new(shift, capacities, most, question.rows, counts_units)
    };
    let mut walker = Walker {
        question,
        streams: Vec::new(),
        every: bursts.div_ceil(MOST_BURSTS).max(1),
        number: 0,
        active: false,
        partial: false,
        budgets: [0; 3],
        walked: Walked {
            lines: level(6, question.lines, MOST_KEYS, false),
            small_pages: level(12, question.small_pages, MOST_PAGES, true),
            large_pages: level(21, question.large_pages, MOST_PAGES, true),
            pages: Vec::new(),
            bursts,
            damage: Damage::default(),
        },
    };
    walker.walked.damage = replay(recording, question.code, &mut walker);
    walker.walked
}

struct Walker<'a> {
    question: &'a Question<'a>,
    /// Of the record at hand.
    streams: Vec<Stream>,
    every: usize,
    number: usize,
    active: bool,
    partial: bool,
    budgets: [u64; 3],
    walked: Walked,
}

impl Observer for Walker<'_> {
    fn begin(&mut self, burst: &Burst) {
        let chosen = (self.question.chosen)(burst);
        self.active = chosen && self.number.is_multiple_of(self.every);
        self.number += usize::from(chosen);
        self.partial = false;
        self.budgets = [MOST_EVENTS; 3];
    }

    fn execute(&mut self, block: &TracedBlock, execution: &Execution<'_>) {
        if !self.active {
            return;
        }
        self.streams.clear();
        for access in &block.accesses {
            let site = access.site.index();
            let kind = self.question.code.sites[site].access.kind;
            let row = match kind {
                Kind::Read | Kind::Write | Kind::ReadWrite | Kind::StreamingRead => {
                    self.question.row_of_site[site]
                }
                Kind::Prefetch | Kind::PrefetchWrite => None,
                Kind::StreamingWrite | Kind::Flush | Kind::WriteBack | Kind::Demote => continue,
            };
            let first = self.streams.len();
            execution.touches(access, |touch| self.add(touch, row, access.instruction));
            if execution.iterations() > 1 {
                spread(&mut self.streams[first..], execution.times(access.instruction));
            }
        }
        let walked = &mut self.walked;
        let levels = [&mut walked.lines, &mut walked.small_pages, &mut walked.large_pages];
        let asked = levels.into_iter().zip(&mut self.budgets).filter(|(level, _)| level.is_asked());
        for (level, budget) in asked {
            run(&self.streams, level.shift, budget, level);
        }
    }

    fn end(&mut self, burst: &Burst) {
        if !self.active {
            return;
        }
        let walked = &mut self.walked;
        let stacks = [&walked.small_pages.stack, &walked.large_pages.stack];
        let sampled = stacks.iter().any(|stack| stack.weight() > 1.0);
        let [small, large] = stacks.map(|stack| stack.keys().collect());
        walked.pages.push(Pages {
            time: burst.time,
            pid: burst.pid,
            tid: burst.tid,
            small,
            large,
            partial: self.partial || sampled || self.budgets.contains(&0),
        });
        walked.lines.end_burst();
        walked.small_pages.end_burst();
        walked.large_pages.end_burst();
    }
}

impl Walker<'_> {
    fn add(&mut self, touch: Touch, row: Option<usize>, group: usize) {
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
                if let Some(row) = row {
                    let walked = &mut self.walked;
                    walked.lines.unknown(row, unknown);
                    walked.small_pages.unknown(row, unknown);
                    walked.large_pages.unknown(row, unknown);
                }
            }
        }
    }
}

/// The streams of one access of a loop: they go on beside those of the others, and where there are several (a gather's
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
