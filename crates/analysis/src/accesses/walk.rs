//! From records to sums: every burst's records in order, each access filed under its row.
//!
//! What for: one pass over all records in bounded memory: what a row keeps are counts, distances, and the lines of the
//! burst at hand. What not: figures (`mod`).
//! Cost: 31 ns per access of a record, 85 ns where each is in another line; a loop that is summarised costs as much as
//! one iteration (`cargo run --release -p analysis --example accesses_bench`; VM with 2 CPUs, Xeon).

use facts::{Burst, Recording};

use super::PREFETCHED;
use super::lines::{Bounds, LineSet};
use super::strides::Strides;
use crate::objects::{UnitIndex, UnitRows};
use crate::traced::{Chase, Damage, Execution, Observer, Touch, TracedBlock, TracedCode, replay};

/// Bytes at the start of a stretch before a prefetcher runs ahead of it: it wants to see some lines in a row (Intel
/// optimization manual, data prefetching to L1 and L2).
const UNFETCHED: u64 = 4 * x86::LINE_BYTES as u64;

/// What one burst contributed to a row.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Share {
    pub(super) accesses: u64,
    /// Of all accesses in the burst.
    pub(super) of: u64,
    pub(super) lines: Bounds,
    /// Bytes touched, in percent of the lines'.
    pub(super) used_percent: (f64, f64),
    /// Some addresses of the burst are not known.
    pub(super) partial: bool,
}

/// Everything about a row.
#[derive(Debug, Default)]
pub(super) struct RowSums {
    pub(super) accesses: u64,
    pub(super) bytes: u64,
    pub(super) smallest: u32,
    pub(super) largest: u32,
    pub(super) strides: Strides,
    /// Accesses whose address is at the end of a chain of loads.
    pub(super) chased: u64,
    /// Of these, the ones in the first lines of a stretch that lies far from the one before: what no prefetcher
    /// brought.
    pub(super) led: u64,
    /// How often at least is known, not how often at most.
    pub(super) at_least: bool,
    pub(super) bursts: Vec<Share>,
    lines: LineSet,
    in_burst: u64,
    partial: bool,
}

/// The result of the pass.
#[derive(Debug, Default)]
pub(super) struct Walked {
    pub(super) rows: Vec<RowSums>,
    /// Accesses of each burst that was read, selected or not.
    pub(super) totals: Vec<u64>,
    pub(super) accesses: u64,
    pub(super) damage: Damage,
}

/// What the pass needs to know beside the recording.
pub(super) struct Question<'a> {
    pub(super) code: &'a TracedCode,
    /// Of sites, or of sites and objects.
    pub(super) rows: UnitRows<'a>,
    /// Whether a burst is asked for.
    pub(super) chosen: &'a dyn Fn(&Burst) -> bool,
}

/// Goes through all bursts that recorded addresses.
pub(super) fn walk(recording: &Recording, question: Question<'_>) -> Walked {
    let code = question.code;
    let filed = Filed::default();
    let (chase, chosen, accesses) = (Chase::new(code.sites.len()), false, 0);
    let mut walker = Walker { question, filed, chase, chosen, accesses };
    walker.filed.walked.damage = replay(recording, code, &mut walker);
    walker.filed.walked
}

struct Walker<'a> {
    question: Question<'a>,
    filed: Filed,
    chase: Chase,
    chosen: bool,
    accesses: u64,
}

/// The last access of a unit.
#[derive(Clone, Copy)]
struct Last {
    address: u64,
    /// How far that was from the one before.
    distance: Option<i64>,
    /// Where the stretch begins that it is in, if a chain led there.
    led: Option<u64>,
}

/// What was seen, by row.
#[derive(Default)]
struct Filed {
    walked: Walked,
    /// Where each unit was last in this burst.
    last: Vec<Option<Last>>,
    touched_units: Vec<usize>,
    touched_rows: Vec<usize>,
}

impl Observer for Walker<'_> {
    fn begin(&mut self, burst: &Burst) {
        self.question.rows.begin(burst);
        self.chase.begin();
        self.chosen = (self.question.chosen)(burst);
        self.accesses = 0;
    }

    fn execute(&mut self, block: &TracedBlock, execution: &Execution<'_>) {
        self.chase.enter(self.question.code, block);
        for (access, depth) in block.accesses.iter().zip(&block.chains.accesses) {
            let mut count = 0u64;
            let is_chase = self.chase.grows(access.site, depth);
            execution.touches(access, |touch| {
                let times = match touch {
                    Touch::Run { count, .. } | Touch::Unknown { count } => count,
                    Touch::AtLeast { .. } => 1,
                };
                count = count.saturating_add(times);
                if self.chosen {
                    self.question.rows.divide(access.site, touch, |unit, row, _, touch| {
                        if let Some(row) = row {
                            self.filed.touch(unit, row, touch, is_chase);
                        }
                    });
                }
            });
            self.accesses = self.accesses.saturating_add(count);
        }
        self.chase.leave(execution.block(), block);
    }

    fn end(&mut self, _: &Burst) {
        let walked = &mut self.filed.walked;
        walked.totals.push(self.accesses);
        walked.accesses = walked.accesses.saturating_add(self.accesses);
        self.filed.end_burst(self.accesses);
    }
}

/// Of accesses from `start` on those in the first bytes of a stretch that begins at `from`.
fn unfetched(from: u64, start: u64, stride: i64, count: u64) -> u64 {
    let Some(left) = UNFETCHED.checked_sub(start.abs_diff(from)) else { return 0 };
    count.min(left.div_ceil(stride.unsigned_abs().max(1)))
}

impl Filed {
    fn touch(&mut self, unit: UnitIndex, number: usize, touch: Touch, is_chase: bool) {
        if number >= self.walked.rows.len() {
            self.walked.rows.resize_with(number + 1, RowSums::default);
        }
        let row = &mut self.walked.rows[number];
        if is_chase {
            let times = match touch {
                Touch::Run { count, .. } | Touch::Unknown { count } => count,
                Touch::AtLeast { .. } => 1,
            };
            row.chased = row.chased.saturating_add(times);
        }
        if row.in_burst == 0 {
            self.touched_rows.push(number);
        }
        let (start, stride, count, bytes) = match touch {
            Touch::Run { start, stride, count, bytes } => (start, stride, count, bytes),
            Touch::AtLeast { start, bytes } => {
                row.at_least = true;
                row.partial = true;
                (start, 0, 1, bytes)
            }
            Touch::Unknown { count } => {
                row.partial = true;
                row.in_burst = row.in_burst.saturating_add(count);
                return;
            }
        };
        row.in_burst = row.in_burst.saturating_add(count);
        row.bytes = row.bytes.saturating_add(count.saturating_mul(u64::from(bytes)));
        row.smallest = if row.largest == 0 { bytes } else { row.smallest.min(bytes) };
        row.largest = row.largest.max(bytes);
        if count == 1 || !row.lines.add_run(start, stride, count, bytes) {
            row.lines.add(start, bytes);
            row.partial |= count > 1;
        }
        if unit.index() >= self.last.len() {
            self.last.resize(unit.index() + 1, None);
        }
        let last = &mut self.last[unit.index()];
        let hops = last.is_none_or(|last| start.abs_diff(last.address) > PREFETCHED);
        let led = if hops { is_chase.then_some(start) } else { last.and_then(|last| last.led) };
        row.led =
            row.led.saturating_add(led.map_or(0, |from| unfetched(from, start, stride, count)));
        let mut before = None;
        match *last {
            Some(Last { address, distance, .. }) => {
                let way = start.wrapping_sub(address).cast_signed();
                row.strides.add(distance, way, bytes, 1);
                before = Some(way);
            }
            None => self.touched_units.push(unit.index()),
        }
        if count > 1 {
            row.strides.add(before, stride, bytes, count - 1);
            before = Some(stride);
        }
        let end = stride.cast_unsigned().wrapping_mul(count - 1);
        *last = Some(Last { address: start.wrapping_add(end), distance: before, led });
    }

    /// The burst had `of` accesses.
    fn end_burst(&mut self, of: u64) {
        for unit in self.touched_units.drain(..) {
            self.last[unit] = None;
        }
        for number in self.touched_rows.drain(..) {
            let row = &mut self.walked.rows[number];
            let extent = row.lines.measure();
            let percent = |bytes: u64, lines: u64| {
                (bytes as f64 / (lines.max(1) as f64 * super::lines::LINE as f64) * 100.0)
                    .min(100.0)
            };
            row.bursts.push(Share {
                accesses: row.in_burst,
                of,
                lines: extent.lines,
                used_percent: (
                    percent(extent.bytes.low, extent.lines.high),
                    percent(extent.bytes.high, extent.lines.low),
                ),
                partial: row.partial,
            });
            row.accesses = row.accesses.saturating_add(row.in_burst);
            row.in_burst = 0;
            row.partial = false;
        }
    }
}
