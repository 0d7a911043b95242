//! How a site goes on where its stride ends, and which loads read the same place all the time.
//!
//! What for: two questions that a stride alone leaves open. A walk with a long stride through a matrix comes back for the
//! next column: each run starts near the one before. One through the records of an array starts elsewhere, or at the
//! same place again. Where bursts end before runs do, no start is seen, but that columns are one element apart; a field of
//! a record is at the same place of each, whatever the loop is unrolled by. And a load of one address repeats itself only if nobody writes there meanwhile.
//! What not: patterns (`accesses`).
//! Assumption: who writes to one place all the time does so from a site that has one address in a burst; a stream that
//! passes the place once is overlooked.

use facts::{Burst, Recording};
use x86::Kind;

use crate::traced::{Execution, SiteIndex, Tool, Touch, TracedBlock, TracedCode, in_order};

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
    /// Of long walks with the same stride through the same memory, in all bursts, those beside the first one, not on its
    /// steps.
    pub moved: u64,
    /// Those on its steps.
    pub stayed: u64,
    /// All of the former are so many bytes, or a multiple, beside it.
    pub apart: u64,
}

/// What a site did in all bursts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Steps {
    pub(super) restarts: Restarts,
    /// Distances between successive addresses in a burst, and those that are 0.
    pub(super) distances: u64,
    pub(super) same: u64,
    pub(super) executions: u64,
    /// Somebody wrote to the one address that it has in a burst.
    pub(super) written: bool,
}

impl Restarts {
    /// Whether the walks are columns, of elements of so many bytes.
    pub(super) fn columns(&self, bytes: f64) -> bool {
        self.moved >= FEWEST_COLUMNS && self.moved > self.stayed && self.apart as f64 <= bytes
    }
}

/// A run with a long stride.
#[derive(Clone, Copy)]
struct Passage {
    stride: i64,
    start: u64,
    low: u64,
    high: u64,
}

/// In the burst at hand.
#[derive(Clone, Copy, Default)]
struct Now {
    seen: bool,
    constant: bool,
    first: u64,
    bytes: u64,
    last: u64,
    stride: Option<i64>,
    start_of_run: u64,
}

/// The steps of each site.
pub(super) fn steps(recording: &Recording, code: &TracedCode) -> Vec<Steps> {
    let sites = code.sites.len();
    let mut watcher = Watcher {
        code,
        steps: vec![Steps::default(); sites],
        now: vec![Now::default(); sites],
        touched: Vec::new(),
        passages: vec![None; sites],
    };
    in_order(recording, code, &mut watcher);
    watcher.steps
}

struct Watcher<'a> {
    code: &'a TracedCode,
    steps: Vec<Steps>,
    now: Vec<Now>,
    touched: Vec<SiteIndex>,
    /// The first of each site, and where all like it were.
    passages: Vec<Option<Passage>>,
}

impl Tool for Watcher<'_> {
    type OfBurst = ();

    fn begin(&mut self, _: &Burst, _: usize) {}

    fn execute(&mut self, block: &TracedBlock, execution: &Execution<'_>) {
        for access in &block.accesses {
            execution.touches(access).for_each(|touch| self.touch(access.site, touch));
        }
    }

    fn end(&mut self, _: &Burst) {
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
        for site in self.touched.drain(..) {
            let now = std::mem::take(&mut self.now[site.index()]);
            let restarts = &mut self.steps[site.index()].restarts;
            compare(&mut self.passages[site.index()], &now, restarts);
            if !now.constant || self.code.sites[site.index()].access.kind != Kind::Read {
                continue;
            }
            let end = now.first.saturating_add(now.bytes);
            let before = written.partition_point(|(start, _)| *start < end);
            // No access is longer than a line: what starts earlier ends before.
            let hit = written[..before]
                .iter()
                .rev()
                .take_while(|(start, _)| start.saturating_add(LINE) > now.first)
                .any(|(start, bytes)| start.saturating_add(*bytes) > now.first);
            self.steps[site.index()].written |= hit;
        }
    }
}

/// Where the run that ends is, beside the first one that went the same way.
fn compare(first: &mut Option<Passage>, now: &Now, restarts: &mut Restarts) {
    let (low, high) = (now.start_of_run.min(now.last), now.start_of_run.max(now.last));
    let is_long = |stride: &i64| {
        let stride = stride.unsigned_abs();
        stride >= LINE && (high - low) / stride >= LONG
    };
    let Some(stride) = now.stride.filter(is_long) else { return };
    let here = Passage { stride, start: now.start_of_run, low, high };
    let Some(first) = first else {
        *first = Some(here);
        return;
    };
    if first.stride != stride || low > first.high || high < first.low {
        return;
    }
    (first.low, first.high) = (first.low.min(low), first.high.max(high));
    match here.start.abs_diff(first.start) % stride.unsigned_abs() {
        0 => restarts.stayed += 1,
        beside => {
            restarts.moved += 1;
            restarts.apart = common_divisor(restarts.apart, beside);
        }
    }
}

/// Euclid's; that of 0 and another is the other.
fn common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

impl Watcher<'_> {
    fn touch(&mut self, site: SiteIndex, touch: Touch) {
        let (start, stride, count, bytes) = match touch {
            Touch::Run { start, stride, count, bytes } => (start, stride, count, bytes),
            Touch::AtLeast { start, bytes } => (start, 0, 1, bytes),
            Touch::Unknown { .. } => return,
        };
        let (steps, now) = (&mut self.steps[site.index()], &mut self.now[site.index()]);
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
                    compare(&mut self.passages[site.index()], now, &mut steps.restarts);
                    (now.start_of_run, now.stride) = (start, None);
                }
            }
        } else {
            self.touched.push(site);
            *now = Now {
                seen: true,
                constant: true,
                first: start,
                bytes: u64::from(bytes),
                start_of_run: start,
                ..Now::default()
            };
        }
        if count > 1 {
            steps.distances = steps.distances.saturating_add(count - 1);
            steps.same += if stride == 0 { count - 1 } else { 0 };
            now.constant &= stride == 0;
            now.stride = Some(stride);
        }
        now.last = start.wrapping_add(stride.cast_unsigned().wrapping_mul(count - 1));
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
                let now = Now { stride: Some(512), start_of_run: *start, last, ..Now::default() };
                compare(&mut first, &now, &mut restarts);
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
