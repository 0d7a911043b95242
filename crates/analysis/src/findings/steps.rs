//! How a site continues where its stride ends, and which loads always read the same address.
//!
//! What for: two questions that a stride leaves open. A long stride through a matrix returns for the next column: each run
//! starts next to the one before. A walk through the records of an array starts elsewhere, or at the same address again. Where
//! bursts end before runs do, no start is recorded, but columns are one element apart, and a field of a record has the same
//! offset in each record, however the loop is unrolled. And a load of one address is repeated only if nothing writes there
//! in between. What not: patterns (`accesses`).
//! Assumption: a site that keeps writing to an address has that one address in a burst; a stream that passes it once is missed.

use std::collections::BTreeMap;

use facts::Burst;
use x86::Kind;

use crate::traced::{Execution, Run, SiteIndex, Tool, Touch, TracedBlock, TracedCode};

/// With fewer it may be chance that they are as near to each other as elements.
const FEWEST_COLUMNS: u64 = 3;
/// Steps of a run that is compared with others.
const LONG: u64 = 16;
const LINE: u64 = x86::LINE_BYTES as u64;

/// Where runs of one stride start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Restarts {
    /// Within a line of the run before, but not at the same place.
    pub near: u64,
    /// All.
    pub all: u64,
    /// Share of long walks with the same stride through the same memory, in all bursts, that are next to the first one, not on
    /// its steps.
    pub moved: u64,
    /// Those on its steps.
    pub stayed: u64,
    /// All of the former are this many bytes, or a multiple, away from it.
    pub apart: u64,
}

/// What a site did in all bursts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Steps {
    pub(super) restarts: Restarts,
    /// Distances between successive addresses in a burst, and those that are 0.
    pub(super) distances: u64,
    pub(super) same: u64,
    pub(super) executions: u64,
    /// Somebody wrote to the one address that it has in a burst.
    pub(super) written: bool,
}

impl Restarts {
    /// Whether the walks are columns of elements of this size.
    pub(super) fn columns(&self, bytes: f64) -> bool {
        self.moved >= FEWEST_COLUMNS && self.moved > self.stayed && self.apart as f64 <= bytes
    }
}

/// A run with a long stride.
#[derive(Clone, Copy)]
pub(crate) struct Passage {
    stride: i64,
    start: u64,
    low: u64,
    high: u64,
}

/// A site in the current burst.
#[derive(Clone, Default)]
struct SiteState {
    steps: Steps,
    passages: Vec<Passage>,
    seen: bool,
    constant: bool,
    first: u64,
    bytes: u64,
    last: u64,
    stride: Option<i64>,
    start_of_run: u64,
}

/// What was seen of sites until now, in the order of bursts.
#[derive(Default)]
pub(crate) struct SiteSteps {
    /// With the first long run of each, and where all like it were.
    sites: BTreeMap<SiteIndex, (Steps, Option<Passage>)>,
}

/// What a burst saw of a site, and its long runs.
pub(crate) type OfSite = (SiteIndex, Steps, Vec<Passage>);

impl SiteSteps {
    pub(super) fn add(&mut self, sites: Vec<OfSite>) {
        for (site, more, passages) in sites {
            let (steps, first) = self.sites.entry(site).or_default();
            steps.merge(&more);
            passages.iter().for_each(|here| compare(first, here, &mut steps.restarts));
        }
    }

    /// The steps of each site.
    pub(super) fn of_sites(self, sites: usize) -> Vec<Steps> {
        let mut all = vec![Steps::default(); sites];
        self.sites.into_iter().for_each(|(site, (steps, _))| all[site.index()] = steps);
        all
    }
}

impl Steps {
    fn merge(&mut self, more: &Steps) {
        self.restarts.near = self.restarts.near.saturating_add(more.restarts.near);
        self.restarts.all = self.restarts.all.saturating_add(more.restarts.all);
        self.distances = self.distances.saturating_add(more.distances);
        self.same = self.same.saturating_add(more.same);
        self.executions = self.executions.saturating_add(more.executions);
        self.written |= more.written;
    }
}

pub(crate) struct Watcher<'a> {
    code: &'a TracedCode,
    /// A site in the current burst.
    now: Vec<SiteState>,
    touched: Vec<SiteIndex>,
}

impl Tool for Watcher<'_> {
    type OfBurst = Vec<OfSite>;

    fn begin(&mut self, _: &Burst, _: usize) {}

    fn execute(&mut self, block: &TracedBlock, execution: &Execution<'_>) {
        for access in &block.accesses {
            execution.touches(access).for_each(|touch| self.touch(access.site, touch));
        }
    }

    fn end(&mut self, _: &Burst) -> Vec<OfSite> {
        let writes = |site: &&SiteIndex| {
            let kind = self.code.sites[site.index()].access.kind;
            matches!(kind, Kind::Write | Kind::ReadWrite | Kind::StreamingWrite)
        };
        let constant = |site: &&SiteIndex| self.now[site.index()].constant;
        let mut written: Vec<(u64, u64)> = self
            .touched
            .iter()
            .filter(writes)
            .filter(constant)
            .map(|site| (self.now[site.index()].first, self.now[site.index()].bytes))
            .collect();
        written.sort_unstable();
        let of_site = |site: SiteIndex| {
            let mut now = std::mem::take(&mut self.now[site.index()]);
            now.end_run();
            if !now.constant || self.code.sites[site.index()].access.kind != Kind::Read {
                return (site, now.steps, now.passages);
            }
            let end = now.first.saturating_add(now.bytes);
            let before = written.partition_point(|(start, _)| *start < end);
            // No access is longer than a line: what starts earlier ends before.
            let hit = written[..before]
                .iter()
                .rev()
                .take_while(|(start, _)| start.saturating_add(LINE) > now.first)
                .any(|(start, bytes)| start.saturating_add(*bytes) > now.first);
            (site, Steps { written: hit, ..now.steps }, now.passages)
        };
        self.touched.drain(..).map(of_site).collect()
    }
}

impl SiteState {
    /// A run of steps ends here: a long one is kept.
    fn end_run(&mut self) {
        let start = self.start_of_run;
        let (low, high) = (start.min(self.last), start.max(self.last));
        let is_long = |stride: &i64| {
            let stride = stride.unsigned_abs();
            stride >= LINE && (high - low) / stride >= LONG
        };
        let stride = self.stride.filter(is_long);
        self.passages.extend(stride.map(|stride| Passage { stride, start, low, high }));
    }
}

/// Position of a run relative to the first one that went the same way.
fn compare(first: &mut Option<Passage>, here: &Passage, restarts: &mut Restarts) {
    let Passage { stride, low, high, .. } = *here;
    let Some(first) = first else {
        *first = Some(*here);
        return;
    };
    if first.stride != stride || low > first.high || high < first.low {
        return;
    }
    (first.low, first.high) = (first.low.min(low), first.high.max(high));
    match here.start.abs_diff(first.start) % stride.unsigned_abs() {
        0 => restarts.stayed += 1,
        distance => {
            restarts.moved += 1;
            restarts.apart = common_divisor(restarts.apart, distance);
        }
    }
}

/// Euclid's; that of 0 and another is the other.
fn common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

impl<'a> Watcher<'a> {
    pub(super) fn new(code: &'a TracedCode) -> Watcher<'a> {
        Watcher { code, now: vec![SiteState::default(); code.sites.len()], touched: Vec::new() }
    }

    fn touch(&mut self, site: SiteIndex, touch: Touch) {
        let Some(run) = touch.run() else { return };
        let Run { start, stride, count, bytes } = run;
        let now = &mut self.now[site.index()];
        if !now.seen {
            self.touched.push(site);
        }
        let steps = &mut now.steps;
        steps.executions = steps.executions.saturating_add(count);
        if now.seen {
            steps.distances = steps.distances.saturating_add(1);
            steps.same += u64::from(start == now.last);
            now.constant &= start == now.last;
            let distance = start.wrapping_sub(now.last).cast_signed();
            match now.stride {
                None => now.stride = Some(distance),
                Some(stride) if stride == distance => {}
                Some(_) => {
                    let moved = start.abs_diff(now.start_of_run);
                    steps.restarts.all = steps.restarts.all.saturating_add(1);
                    steps.restarts.near += u64::from(moved > 0 && moved < LINE);
                    now.end_run();
                    (now.start_of_run, now.stride) = (start, None);
                }
            }
        } else {
            (now.seen, now.constant) = (true, true);
            (now.first, now.bytes, now.start_of_run) = (start, u64::from(bytes), start);
        }
        let steps = &mut now.steps;
        if count > 1 {
            steps.distances = steps.distances.saturating_add(count - 1);
            steps.same += if stride == 0 { count - 1 } else { 0 };
            now.constant &= stride == 0;
            now.stride = Some(stride);
        }
        now.last = run.at(count - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_and_records_differ_in_where_bursts_meet_them() {
        let after = |starts: &[u64]| {
            let (mut first, mut restarts) = (None, Restarts::default());
            for start in starts {
                let last = start + 512 * 1000;
                let mut now = SiteState {
                    stride: Some(512),
                    start_of_run: *start,
                    last,
                    ..SiteState::default()
                };
                now.end_run();
                compare(&mut first, &now.passages[0], &mut restarts);
            }
            restarts
        };
        // Columns 3, 17, 100, 60 and 3 of rows with 128 numbers of 4 bytes; the bursts begin in several rows.
        let columns = after(&[12, 68 + 512, 400 + 5120, 240, 12 + 1024]);
        assert_eq!((columns.moved, columns.stayed, columns.apart), (3, 1, 4));
        assert!(columns.columns(4.0));
        // Records of 128 bytes, four at a time.
        let records = after(&[16, 16 + 128, 16 + 640, 16 + 256, 16 + 1280]);
        assert_eq!((records.moved, records.stayed, records.apart), (4, 0, 128));
        assert!(!records.columns(8.0));
        // Other memory.
        assert_eq!(after(&[16, 8 << 20]), Restarts::default());
    }
}
