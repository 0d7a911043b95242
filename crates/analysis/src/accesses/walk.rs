//! From records to sums: every burst's records in order, each access added to its row.
//!
//! What for: one pass over all records in bounded memory. A row keeps counts, strides, and the lines of the current burst.
//! What not: figures (`mod`).
//! Cost: 31 ns per access of a record, 85 ns where each is in another line; a summarised loop costs as much as one iteration
//! (`cargo run --release -p analysis --example accesses_bench`; VM with 2 CPUs, Xeon).

use std::collections::HashMap;

use facts::{Burst, Recording};

use super::PREFETCHED;
use super::lines::{Bounds, Extent, LineSet, measure};
use super::strides::Strides;
use crate::objects::UnitRows;
use crate::traced::{
    Damage, Execution, LINE, Run, SiteIndex, Tool, Touch, TracedBlock, TracedCode, stream,
    traced_bursts,
};

/// Bytes at the start of a stretch before a prefetcher runs ahead of it: it wants to see some lines in a row (Intel
/// optimization manual, data prefetching to L1 and L2).
const UNFETCHED: u64 = 4 * x86::LINE_BYTES as u64;

/// What one burst contributed to a row.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Share {
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
    /// Of each burst; those of a burst at hand have none yet.
    pub(super) bursts: Vec<Share>,
}

impl RowSums {
    /// Adds what another part of the row did, or the row later, without its bursts.
    fn merge(&mut self, later: &RowSums) {
        self.accesses = self.accesses.saturating_add(later.accesses);
        self.bytes = self.bytes.saturating_add(later.bytes);
        self.add_bytes(later.smallest);
        self.add_bytes(later.largest);
        self.strides.merge(&later.strides);
        self.chased = self.chased.saturating_add(later.chased);
        self.led = self.led.saturating_add(later.led);
        self.at_least |= later.at_least;
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

/// Goes through all bursts that recorded addresses, and files what those that are asked for do under rows of sites, or of sites
/// and objects. One result for each way of all of `rows`, in their order.
pub(super) fn walk<'a>(
    recording: &'a Recording,
    code: &'a TracedCode,
    rows: impl Fn() -> Vec<UnitRows<'a>> + Sync,
    chosen: &'a (dyn Fn(&Burst) -> bool + Sync),
) -> Vec<Walked> {
    let mut all = Vec::new();
    let walkers = || {
        let walkers = rows().into_iter().map(|rows| Walker::new(rows, chosen));
        walkers.collect::<Vec<Walker<'_>>>()
    };
    let bursts: Vec<_> = traced_bursts(recording, code).collect();
    let take = |_: &Burst, of_burst| add_burst(&mut all, of_burst);
    let (damage, _) = stream(recording, code, &bursts, walkers, take);
    all.iter_mut().for_each(|walked| walked.damage = damage);
    all
}

/// Adds what several walkers saw of a later burst, in each of their ways.
pub(crate) fn add_burst(all: &mut Vec<Walked>, of_burst: Vec<OfBurst>) {
    let ways = of_burst
        .into_iter()
        .flat_map(|(accesses, ways)| ways.into_iter().map(move |rows| (accesses, rows)));
    for (at, (accesses, rows)) in ways.enumerate() {
        if at == all.len() {
            all.push(Walked::default());
        }
        all[at].add(accesses, rows);
    }
}

impl Walked {
    /// Adds what a later burst had in all, and what its rows did.
    fn add(&mut self, accesses: u64, rows: Vec<RowOfBurst>) {
        self.totals.push(accesses);
        self.accesses = self.accesses.saturating_add(accesses);
        for (number, sums, share) in rows {
            if number >= self.rows.len() {
                self.rows.resize_with(number + 1, RowSums::default);
            }
            let row = &mut self.rows[number];
            row.merge(&sums);
            row.bursts.push(share);
        }
    }
}

/// All accesses of a burst, and what rows did in each way.
pub(crate) type OfBurst = (u64, Vec<Vec<RowOfBurst>>);

/// What a row did in a burst: its number, without the burst's share, and that.
pub(crate) type RowOfBurst = (usize, RowSums, Share);

/// What is touched is kept by unit, once for all ways: most of the work is there. A row of the burst is the sum of its units.
pub(crate) struct Walker<'a> {
    unit_rows: UnitRows<'a>,
    is_chosen: &'a (dyn Fn(&Burst) -> bool + Sync),
    chosen: bool,
    accesses: u64,
    /// Of the burst at hand.
    units: Vec<UnitAtHand>,
    touched_units: Vec<usize>,
    ways: Vec<Way>,
}

/// Rows of one way of grouping, and those that the burst at hand has touched.
#[derive(Default)]
struct Way {
    /// The units of each row, in the order in which the burst came to them.
    rows: Vec<Vec<usize>>,
    touched: Vec<usize>,
}

/// A unit in a burst.
#[derive(Default)]
struct UnitAtHand {
    is_touched: bool,
    last: Option<Last>,
    lines: LineSet,
    sums: RowSums,
    /// Some addresses are not known.
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
    type OfBurst = OfBurst;
    const CHASES: bool = true;

    fn begin(&mut self, burst: &Burst, number: usize) {
        self.unit_rows.begin(burst, number);
        self.chosen = (self.is_chosen)(burst);
        self.accesses = 0;
    }

    fn execute(&mut self, block: &TracedBlock, execution: &Execution<'_>) {
        for access in &block.accesses {
            let is_chase = execution.chases(access);
            for touch in execution.touches(access) {
                self.accesses = self.accesses.saturating_add(touch.count());
                if self.chosen {
                    self.file(access.site, touch, is_chase);
                }
            }
        }
    }

    fn end(&mut self, _: &Burst) -> Self::OfBurst {
        let touched = &self.touched_units;
        touched.iter().for_each(|unit| self.units[*unit].lines.put_in_order());
        let (units, of, several) = (&self.units, self.accesses, self.ways.len() > 1);
        // Rows of different ways are often of the same units.
        let mut known: HashMap<Vec<usize>, Extent> = HashMap::new();
        let mut extent_of = |mut of_row: Vec<usize>| {
            of_row.sort_unstable();
            let find = |of_row: &[usize]| {
                let sets: Vec<&LineSet> = of_row.iter().map(|unit| &units[*unit].lines).collect();
                measure(&sets)
            };
            match several {
                true => match known.get(&of_row) {
                    Some(extent) => *extent,
                    None => {
                        let extent = find(&of_row);
                        known.insert(of_row, extent);
                        extent
                    }
                },
                false => find(&of_row),
            }
        };
        let ways = self.ways.iter_mut().map(|way| {
            let finished = way.touched.drain(..).map(|number| {
                let row = std::mem::take(&mut way.rows[number]);
                let mut sums = RowSums::default();
                row.iter().for_each(|unit| sums.merge(&units[*unit].sums));
                let partial = row.iter().any(|unit| units[*unit].partial);
                let share = share(sums.accesses, of, extent_of(row), partial);
                (number, sums, share)
            });
            finished.collect()
        });
        let ways = ways.collect();
        for unit in self.touched_units.drain(..) {
            let unit = &mut self.units[unit];
            let mut lines = std::mem::take(&mut unit.lines);
            lines.clear();
            *unit = UnitAtHand { lines, ..UnitAtHand::default() };
        }
        (of, ways)
    }
}

/// Number of accesses from `start` on that are in the first bytes of a stretch that begins at `from`.
fn unfetched(from: u64, start: u64, stride: i64, count: u64) -> u64 {
    let Some(left) = UNFETCHED.checked_sub(start.abs_diff(from)) else { return 0 };
    count.min(left.div_ceil(stride.unsigned_abs().max(1)))
}

/// What a burst of `of` accesses contributed to a row with this many.
fn share(accesses: u64, of: u64, extent: Extent, partial: bool) -> Share {
    let percent = |bytes: u64, lines: u64| {
        (bytes as f64 / (lines.max(1) as f64 * LINE as f64) * 100.0).min(100.0)
    };
    let used_percent = (
        percent(extent.bytes.low, extent.lines.high),
        percent(extent.bytes.high, extent.lines.low),
    );
    Share { accesses, of, lines: extent.lines, used_percent, partial }
}

impl<'a> Walker<'a> {
    pub(crate) fn new(
        unit_rows: UnitRows<'a>,
        is_chosen: &'a (dyn Fn(&Burst) -> bool + Sync),
    ) -> Walker<'a> {
        let ways = std::iter::repeat_with(Way::default).take(unit_rows.ways()).collect();
        Walker {
            unit_rows,
            is_chosen,
            chosen: false,
            accesses: 0,
            units: Vec::new(),
            touched_units: Vec::new(),
            ways,
        }
    }

    fn file(&mut self, site: SiteIndex, touch: Touch, is_chase: bool) {
        let Walker { unit_rows, units, touched_units, ways, .. } = self;
        unit_rows.divide(site, touch, |unit, rows, _, touch| {
            if rows.iter().all(Option::is_none) {
                return;
            }
            let unit = unit.index();
            if unit >= units.len() {
                units.resize_with(unit + 1, UnitAtHand::default);
            }
            if !std::mem::replace(&mut units[unit].is_touched, true) {
                touched_units.push(unit);
                let listed =
                    ways.iter_mut().zip(rows).filter_map(|(way, row)| Some((way, (*row)?)));
                listed.for_each(|(way, row)| way.list(row, unit));
            }
            units[unit].touch(touch, is_chase);
        });
    }
}

impl Way {
    /// The burst at hand comes to a unit of a row.
    fn list(&mut self, row: usize, unit: usize) {
        if row >= self.rows.len() {
            self.rows.resize_with(row + 1, Vec::new);
        }
        if self.rows[row].is_empty() {
            self.touched.push(row);
        }
        self.rows[row].push(unit);
    }
}

impl UnitAtHand {
    fn touch(&mut self, touch: Touch, is_chase: bool) {
        let sums = &mut self.sums;
        sums.accesses = sums.accesses.saturating_add(touch.count());
        if is_chase {
            sums.chased = sums.chased.saturating_add(touch.count());
        }
        sums.at_least |= matches!(touch, Touch::AtLeast { .. });
        self.partial |= !matches!(touch, Touch::Run { .. });
        let Some(run) = touch.run() else { return };
        let Run { start, stride, count, bytes } = run;
        sums.bytes = sums.bytes.saturating_add(count.saturating_mul(u64::from(bytes)));
        sums.add_bytes(bytes);
        if count == 1 || !self.lines.add_run(&run) {
            self.lines.add(start, bytes);
            self.partial |= count > 1;
        }
        let last = self.last;
        let hops = last.is_none_or(|last| start.abs_diff(last.address) > PREFETCHED);
        // Where a stretch begins that a chain led to.
        let led = if hops { is_chase.then_some(start) } else { last.and_then(|last| last.led) };
        let of_start = led.map_or(0, |from| unfetched(from, start, stride, count));
        sums.led = sums.led.saturating_add(of_start);
        let mut before = None;
        if let Some(Last { address, distance, .. }) = last {
            let way = start.wrapping_sub(address).cast_signed();
            sums.strides.add(distance, way, bytes, 1);
            before = Some(way);
        }
        if count > 1 {
            sums.strides.add(before, stride, bytes, count - 1);
            before = Some(stride);
        }
        self.last = Some(Last { address: run.at(count - 1), distance: before, led });
    }
}
