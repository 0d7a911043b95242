//! The lines to which a burst returned often enough to matter to other threads.
//!
//! What for: per line the bytes that were read and written, how often, and by which code. What not: other threads.
//!
//! How often: a *visit* is an access at an address that its loop does not move on from; a run through an array visits each of its
//! lines once, however many elements the line has. So a stream over an array that another thread wrote earlier, or the line at
//! the border of two threads' halves, has one visit per sweep.
//! Which lines: those with at least [`LEAST_VISITS`] visits, and one per [`RAREST`] of the burst's time. Fetching a line from
//! another core takes some 0.1 µs, so a line that is visited more rarely costs less than 1 % of the time.
//! Bound: a run over more than [`LONGEST_RUN`] lines is skipped: at 50 GB/s it takes longer than [`RAREST`], so it does not visit
//! its lines often enough.
//!
//! Cost: the lines of a stream are kept as one span, however many there are, and only lines that turn out to matter are visited: a
//! burst of a matrix product visits millions of lines, of which a few hundred matter (`frequent`).

mod frequent;

use base::{IndexMap, Nanos, Pid, Tid};
use facts::{Burst, BurstEnd, Recording};
use x86::Kind;

use self::frequent::{Span, frequent_lines};
use crate::traced::{
    Execution, LINE, Run, SiteIndex, Tool, Touch, TracedBlock, TracedCode, lines_of, stream,
    traced_bursts,
};

/// Fewer visits say nothing.
const LEAST_VISITS: u64 = 8;
/// A line that matters is visited that often.
const RAREST: Nanos = Nanos(20_000);
/// Lines of a run that is gone through.
const LONGEST_RUN: u64 = 16 << 10;

/// What a burst did to a line.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct LineUse {
    /// Bytes, bit 0 for the first.
    pub(super) read: u64,
    pub(super) written: u64,
    /// Visits that read and that write; an atomic or `add [x], 1` is both.
    pub(super) reads: u64,
    pub(super) writes: u64,
    /// All visits.
    pub(super) visits: u64,
    pub(super) sites: Vec<(SiteIndex, u64)>,
}

/// The lines of one burst.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct BurstLines {
    pub(super) time: Nanos,
    pub(super) pid: Pid,
    pub(super) tid: Tid,
    pub(super) lines: IndexMap<u64, LineUse>,
    /// How long it ran.
    pub(super) length: Nanos,
    /// It ended because its buffer was full: its visits are as many for its time as in a longer one.
    pub(super) full: bool,
}

/// All chosen bursts.
pub(super) fn lines_of_bursts(
    recording: &Recording,
    code: &TracedCode,
    row_of_site: &[Option<usize>],
    chosen: &dyn Fn(&Burst) -> bool,
) -> Vec<BurstLines> {
    let watcher =
        || Watcher { code, row_of_site, lines: IndexMap::default(), spans: IndexMap::default() };
    let asked: Vec<_> = traced_bursts(recording, code).filter(|burst| chosen(burst)).collect();
    let mut bursts = Vec::with_capacity(asked.len());
    stream(recording, code, &asked, watcher, |_, burst| bursts.push(burst));
    bursts
}

pub(crate) struct Watcher<'a> {
    code: &'a TracedCode,
    row_of_site: &'a [Option<usize>],
    /// Lines of the current burst that were visited one at a time.
    lines: IndexMap<u64, LineUse>,
    /// Likewise, several lines in a row: how often.
    spans: IndexMap<Span, u64>,
}

impl Tool for Watcher<'_> {
    type OfBurst = BurstLines;

    fn begin(&mut self, _: &Burst, _: usize) {}

    fn execute(&mut self, block: &TracedBlock, execution: &Execution<'_>) {
        for access in &block.accesses {
            if self.row_of_site[access.site.index()].is_some() {
                execution.touches(access).for_each(|touch| self.touch(access.site, touch));
            }
        }
    }

    fn end(&mut self, burst: &Burst) -> BurstLines {
        let length = burst.cpu_time.unwrap_or(burst.in_code());
        let least = LEAST_VISITS.max(length.0 / RAREST.0);
        let spans: Vec<(Span, u64)> = self.spans.drain().collect();
        let alone = self.lines.iter().map(|(line, used)| (*line, used.visits));
        let frequent = frequent_lines(&spans, alone, least);
        for (span, visits) in &spans {
            for line in frequent.range(span.first_line()..=span.last_line()) {
                let (start, end) = (span.start.max(line * LINE), span.end_in(*line));
                self.visit(span.site, start, end - start, *visits);
            }
        }
        let lines = self.lines.drain().filter(|(_, used)| used.visits >= least).collect();
        let Burst { time, pid, tid, .. } = *burst;
        let full = burst.end == BurstEnd::Full;
        BurstLines { time, pid, tid, lines, length, full }
    }
}

impl<'a> Watcher<'a> {
    pub(crate) fn new(code: &'a TracedCode, row_of_site: &'a [Option<usize>]) -> Watcher<'a> {
        Watcher { code, row_of_site, lines: IndexMap::default(), spans: IndexMap::default() }
    }

    fn touch(&mut self, site: SiteIndex, touch: Touch) {
        let Some(run) = touch.run() else { return };
        let Run { start, stride, count, bytes } = run;
        if stride == 0 {
            self.visit(site, start, u64::from(bytes), count);
            return;
        }
        let step = stride.unsigned_abs();
        let Some(span) = step.checked_mul(count.saturating_sub(1)) else { return };
        let steps_per_line = (LINE / step).max(1);
        if count / steps_per_line > LONGEST_RUN {
            return;
        }
        let low = if stride < 0 { start.wrapping_sub(span) } else { start };
        if step <= u64::from(bytes) {
            let span = Span::new(site, low, span.saturating_add(u64::from(bytes)));
            let visits = self.spans.entry(span).or_default();
            *visits = visits.saturating_add(1);
            return;
        }
        let mut last = None;
        for number in 0..count {
            let at = low.wrapping_add(number * step);
            // Further elements in one line are one visit, but touch more bytes.
            let visits = u64::from(last.replace(at / LINE) != Some(at / LINE));
            self.visit(site, at, u64::from(bytes), visits);
        }
    }

    fn visit(&mut self, site: SiteIndex, start: u64, bytes: u64, visits: u64) {
        let (reads, writes) = match self.code.sites[site.index()].access.kind {
            Kind::Read | Kind::StreamingRead => (true, false),
            Kind::Write | Kind::StreamingWrite => (false, true),
            Kind::ReadWrite => (true, true),
            _ => return,
        };
        for (line, mask) in lines_of(start, bytes) {
            let used = self.lines.entry(line).or_default();
            if reads {
                used.read |= mask;
                used.reads = used.reads.saturating_add(visits);
            }
            if writes {
                used.written |= mask;
                used.writes = used.writes.saturating_add(visits);
            }
            used.visits = used.visits.saturating_add(visits);
            match used.sites.iter_mut().find(|(known, _)| *known == site) {
                Some((_, known)) => *known = known.saturating_add(visits),
                None => used.sites.push((site, visits)),
            }
        }
    }
}
