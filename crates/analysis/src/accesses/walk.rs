//! From records to sums: every burst's records in order, each access added to its row.
//!
//! What for: one pass over all records in bounded memory. A row keeps counts, strides, and the lines of the current burst.
//! What not: figures (`mod`).
//! Cost: 31 ns per access of a record, 85 ns where each is in another line; a summarised loop costs as much as one iteration
//! (`cargo run --release -p analysis --example accesses_bench`; VM with 2 CPUs, Xeon).

use facts::{Burst, Recording};

use super::PREFETCHED;
use super::lines::{Bounds, LineSet};
use super::strides::Strides;
use crate::objects::UnitRows;
use crate::traced::{
    Chase, Damage, Execution, LINE, Run, SiteIndex, Tool, Touch, TracedBlock, TracedCode, stream,
    traced_bursts,
};

/// Bytes at the start of a stretch before a prefetcher runs ahead of it: it wants to see some lines in a row (Intel
/// optimization manual, data prefetching to L1 and L2).
const UNFETCHED: u64 = 4 * x86::LINE_BYTES as u64;

/// What one burst contributed to a row.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Share {
    pub(super) accesses: u64,
    /// Number of all accesses in the burst.
    pub(super) of: u64,
    pub(super) lines: Bounds,
    /// Bytes touched, in percent of the lines'.
    pub(super) used_percent: (f64, f64),
    /// Some addresses of the burst are not known.
    pub(super) partial: bool,
}

/// Everything about a row, of one burst or several.
#[derive(Debug, Default)]
pub(crate) struct RowSums {
    pub(super) accesses: u64,
    pub(super) bytes: u64,
    pub(super) smallest: u32,
    pub(super) largest: u32,
    pub(super) strides: Strides,
    /// Accesses whose address is at the end of a chain of loads.
    pub(super) chased: u64,
    /// Those of them in the first lines of a stretch that lies far from the one before: no prefetcher brought these.
    pub(super) led: u64,
    /// How often at least is known, not how often at most.
    pub(super) at_least: bool,
    pub(super) bursts: Vec<Share>,
}

impl RowSums {
    fn merge(&mut self, later: RowSums) {
        self.accesses = self.accesses.saturating_add(later.accesses);
        self.bytes = self.bytes.saturating_add(later.bytes);
        self.add_bytes(later.smallest);
        self.add_bytes(later.largest);
        self.strides.merge(&later.strides);
        self.chased = self.chased.saturating_add(later.chased);
        self.led = self.led.saturating_add(later.led);
        self.at_least |= later.at_least;
        self.bursts.extend(later.bursts);
    }

    /// Size of the accesses so far, bytes; 0: there was none.
    fn add_bytes(&mut self, bytes: u32) {
        if bytes > 0 {
            self.smallest = if self.largest == 0 { bytes } else { self.smallest.min(bytes) };
            self.largest = self.largest.max(bytes);
        }
    }
}

/// The result of the pass.
#[derive(Debug, Default)]
pub(crate) struct Walked {
    pub(super) rows: Vec<RowSums>,
    /// Accesses of each burst that was read, selected or not.
    pub(super) totals: Vec<u64>,
    pub(super) accesses: u64,
    pub(crate) damage: Damage,
}

/// Goes through all bursts that recorded addresses, and files what those that are asked for do under rows of sites, or of
/// sites and objects.
pub(super) fn walk<'a>(
    recording: &'a Recording,
    code: &'a TracedCode,
    rows: impl Fn() -> UnitRows<'a> + Sync,
    chosen: &'a (dyn Fn(&Burst) -> bool + Sync),
) -> Walked {
    let walker = || Walker::new(code, rows(), chosen);
    let bursts: Vec<_> = traced_bursts(recording, code).collect();
    let mut walked = Walked::default();
    let (damage, _) = stream(recording, code, &bursts, walker, |_, of| walked.add(of));
    Walked { damage, ..walked }
}

impl Walked {
    /// Adds what a later burst had in all, and what its rows did.
    pub(crate) fn add(&mut self, (accesses, rows): (u64, Vec<(usize, RowSums)>)) {
        self.totals.push(accesses);
        self.accesses = self.accesses.saturating_add(accesses);
        for (number, sums) in rows {
            if number >= self.rows.len() {
                self.rows.resize_with(number + 1, RowSums::default);
            }
            self.rows[number].merge(sums);
        }
    }
}

pub(crate) struct Walker<'a> {
    code: &'a TracedCode,
    unit_rows: UnitRows<'a>,
    is_chosen: &'a (dyn Fn(&Burst) -> bool + Sync),
    chosen: bool,
    chase: Chase,
    accesses: u64,
    /// Of the burst at hand.
    rows: Vec<AtHand>,
    /// Where each unit was last in this burst.
    last: Vec<Option<Last>>,
    touched_units: Vec<usize>,
    touched_rows: Vec<usize>,
}

/// A row in a burst.
#[derive(Default)]
struct AtHand {
    sums: RowSums,
    lines: LineSet,
    partial: bool,
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

impl Tool for Walker<'_> {
    /// All accesses, and what rows did.
    type OfBurst = (u64, Vec<(usize, RowSums)>);

    fn begin(&mut self, burst: &Burst, number: usize) {
        self.unit_rows.begin(burst, number);
        self.chase.begin();
        self.chosen = (self.is_chosen)(burst);
        self.accesses = 0;
    }

    fn execute(&mut self, block: &TracedBlock, execution: &Execution<'_>) {
        self.chase.enter(self.code, block);
        for (access, depth) in block.accesses.iter().zip(&block.chains.accesses) {
            let is_chase = self.chase.grows(access.site, depth);
            for touch in execution.touches(access) {
                self.accesses = self.accesses.saturating_add(touch.count());
                if self.chosen {
                    self.file(access.site, touch, is_chase);
                }
            }
        }
        self.chase.leave(execution.block(), block);
    }

    fn end(&mut self, _: &Burst) -> (u64, Vec<(usize, RowSums)>) {
        for unit in self.touched_units.drain(..) {
            self.last[unit] = None;
        }
        let (rows, of) = (&mut self.rows, self.accesses);
        let touched = self.touched_rows.drain(..);
        (of, touched.map(|number| (number, rows[number].finish(of))).collect())
    }
}

/// Number of accesses from `start` on that are in the first bytes of a stretch that begins at `from`.
fn unfetched(from: u64, start: u64, stride: i64, count: u64) -> u64 {
    let Some(left) = UNFETCHED.checked_sub(start.abs_diff(from)) else { return 0 };
    count.min(left.div_ceil(stride.unsigned_abs().max(1)))
}

impl AtHand {
    /// The burst had `of` accesses.
    fn finish(&mut self, of: u64) -> RowSums {
        let extent = self.lines.measure();
        let percent = |bytes: u64, lines: u64| {
            (bytes as f64 / (lines.max(1) as f64 * LINE as f64) * 100.0).min(100.0)
        };
        let mut sums = std::mem::take(&mut self.sums);
        sums.bursts.push(Share {
            accesses: sums.accesses,
            of,
            lines: extent.lines,
            used_percent: (
                percent(extent.bytes.low, extent.lines.high),
                percent(extent.bytes.high, extent.lines.low),
            ),
            partial: std::mem::take(&mut self.partial),
        });
        sums
    }
}

impl<'a> Walker<'a> {
    pub(crate) fn new(
        code: &'a TracedCode,
        unit_rows: UnitRows<'a>,
        is_chosen: &'a (dyn Fn(&Burst) -> bool + Sync),
    ) -> Walker<'a> {
        Walker {
            code,
            unit_rows,
            is_chosen,
            chosen: false,
            chase: Chase::new(code.sites.len()),
            accesses: 0,
            rows: Vec::new(),
            last: Vec::new(),
            touched_units: Vec::new(),
            touched_rows: Vec::new(),
        }
    }

    fn file(&mut self, site: SiteIndex, touch: Touch, is_chase: bool) {
        let Walker { unit_rows, rows, last, touched_units, touched_rows, .. } = self;
        unit_rows.divide(site, touch, |unit, row, _, touch| {
            let Some(number) = row else { return };
            if number >= rows.len() {
                rows.resize_with(number + 1, AtHand::default);
            }
            if rows[number].sums.accesses == 0 {
                touched_rows.push(number);
            }
            if unit.index() >= last.len() {
                last.resize(unit.index() + 1, None);
            }
            let last = &mut last[unit.index()];
            if last.is_none() && touch.run().is_some() {
                touched_units.push(unit.index());
            }
            rows[number].touch(last, touch, is_chase);
        });
    }
}

impl AtHand {
    fn touch(&mut self, last: &mut Option<Last>, touch: Touch, is_chase: bool) {
        let sums = &mut self.sums;
        sums.accesses = sums.accesses.saturating_add(touch.count());
        if is_chase {
            sums.chased = sums.chased.saturating_add(touch.count());
        }
        let at_least = matches!(touch, Touch::AtLeast { .. });
        sums.at_least |= at_least;
        self.partial |= at_least;
        let Some(run) = touch.run() else {
            self.partial = true;
            return;
        };
        let Run { start, stride, count, bytes } = run;
        sums.bytes = sums.bytes.saturating_add(count.saturating_mul(u64::from(bytes)));
        sums.add_bytes(bytes);
        if count == 1 || !self.lines.add_run(&run) {
            self.lines.add(start, bytes);
            self.partial |= count > 1;
        }
        let hops = last.is_none_or(|last| start.abs_diff(last.address) > PREFETCHED);
        let led = if hops { is_chase.then_some(start) } else { last.and_then(|last| last.led) };
        sums.led =
            sums.led.saturating_add(led.map_or(0, |from| unfetched(from, start, stride, count)));
        let mut before = None;
        if let Some(Last { address, distance, .. }) = *last {
            let way = start.wrapping_sub(address).cast_signed();
            sums.strides.add(distance, way, bytes, 1);
            before = Some(way);
        }
        if count > 1 {
            sums.strides.add(before, stride, bytes, count - 1);
            before = Some(stride);
        }
        *last = Some(Last { address: run.at(count - 1), distance: before, led });
    }
}
