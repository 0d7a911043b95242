//! Distances in units of one size (lines, small pages, large pages), by row.
//!
//! What for: one burst after the other goes through an [`LruStack`]; the distances of each row in it become an [`Observed`]. A
//! sampled unit represents many: the sampled events of a row and burst are weighted so that they add up to all its events, whose
//! number is known (the correction of SHARDS_adj in Waldspurger et al., FAST 2015, section 3.4, here per row).
//! What not: estimates.

use super::events::{Sink, Totals};
use super::lru::{Distance, KeySet, LruStack};
use super::survival::{Observed, SegmentWeights};

/// What is gathered of a row.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// One per burst in which the row occurs.
    pub(super) bursts: Vec<Observed>,
    /// Distinct units of each of these bursts; empty when they are not counted.
    pub(super) units: Vec<f64>,
    /// Accesses whose distance is not known, not even a lower bound.
    pub(super) unknown: u64,
}

/// What one burst saw of a row.
pub(super) struct OfBurst {
    /// With the distinct units, if they are counted; `None` where it only knows that there were accesses.
    seen: Option<(Observed, Option<f64>)>,
    unknown: u64,
}

impl Tally {
    /// Adds what a later burst saw.
    pub(super) fn add(&mut self, later: OfBurst) {
        self.unknown = self.unknown.saturating_add(later.unknown);
        let Some((observed, units)) = later.seen else { return };
        self.bursts.push(observed);
        self.units.extend(units);
    }
}

/// The burst at hand.
#[derive(Debug, Default)]
struct AtHand {
    sampled: Vec<SegmentWeights>,
    repeats: Vec<u64>,
    events: u64,
    units: KeySet,
    last_unit: Option<u64>,
    is_touched: bool,
    /// It is among the touched ones, or has accesses of which nothing is known.
    is_listed: bool,
    unknown: u64,
}

/// All rows, for one size of unit.
#[derive(Debug)]
pub(super) struct Level {
    /// Units have 2^this bytes.
    pub(super) shift: u32,
    pub(super) stack: LruStack,
    /// One for each row that came up; there may be more rows.
    rows: Vec<AtHand>,
    capacities: Vec<usize>,
    counts_units: bool,
    listed: Vec<usize>,
}

impl Level {
    /// `capacities` in units, rising, at least 1. `counts_units`: whether rows keep their distinct units.
    pub(super) fn new(
        shift: u32,
        capacities: &[usize],
        most_keys: usize,
        counts_units: bool,
    ) -> Level {
        Level {
            shift,
            stack: LruStack::new(capacities.to_vec(), most_keys),
            rows: Vec::new(),
            capacities: capacities.to_vec(),
            counts_units,
            listed: Vec::new(),
        }
    }

    /// Whether there is a capacity to compare with.
    pub(super) fn is_asked(&self) -> bool {
        !self.capacities.is_empty()
    }

    /// The entry of a row, which may be new.
    fn listed(&mut self, row: usize) -> &mut AtHand {
        if row >= self.rows.len() {
            self.rows.resize_with(row + 1, AtHand::default);
        }
        let at_hand = &mut self.rows[row];
        if !std::mem::replace(&mut at_hand.is_listed, true) {
            self.listed.push(row);
        }
        at_hand
    }

    fn row(&mut self, row: usize) -> &mut AtHand {
        let segments = self.capacities.len() + 1;
        let at_hand = self.listed(row);
        if !at_hand.is_touched {
            at_hand.is_touched = true;
            at_hand.sampled.resize(segments, SegmentWeights::default());
            at_hand.repeats.resize(segments, 0);
        }
        at_hand
    }

    /// `count` accesses whose address is not known.
    pub(super) fn unknown(&mut self, row: usize, count: u64) {
        let at_hand = self.listed(row);
        at_hand.unknown = at_hand.unknown.saturating_add(count);
    }

    /// The burst is over: what rows saw, and the stack is empty again.
    pub(super) fn end_burst(&mut self) -> Vec<(usize, OfBurst)> {
        self.stack.clear();
        let (rows, counts_units) = (&mut self.rows, self.counts_units);
        self.listed.drain(..).map(|row| (row, rows[row].finish(counts_units))).collect()
    }
}

impl AtHand {
    /// What was seen; empties itself.
    fn finish(&mut self, counts_units: bool) -> OfBurst {
        let units = counts_units.then_some(self.units.len() as f64);
        let sampled: f64 = self.sampled.iter().map(|seen| seen.again + seen.first).sum();
        let scale = if sampled > 0.0 { self.events as f64 / sampled } else { 0.0 };
        // Of events of which none was followed nothing is known.
        let events = if sampled > 0.0 { 0 } else { self.events };
        let unknown = self.unknown.saturating_add(events);
        let mut observed = Observed::default();
        for (at, (seen, repeats)) in self.sampled.drain(..).zip(self.repeats.drain(..)).enumerate()
        {
            let again = seen.again * scale + repeats as f64;
            let seen = SegmentWeights { again, first: seen.first * scale };
            if seen != SegmentWeights::default() {
                observed.segments.push((at, seen));
            }
        }
        let seen = self.is_touched.then_some((observed, units));
        self.units.clear();
        *self = AtHand { units: std::mem::take(&mut self.units), ..AtHand::default() };
        OfBurst { seen, unknown }
    }
}

impl Sink for Level {
    fn follows(&self, unit: u64) -> bool {
        self.stack.follows(unit)
    }

    fn touch(&mut self, row: Option<usize>, unit: u64) {
        let weight = self.stack.weight();
        let distance = self.stack.touch(unit);
        let Some(row) = row else { return };
        let counts_units = self.counts_units;
        let at_hand = self.row(row);
        match distance {
            Distance::Again(segment) => at_hand.sampled[segment].again += weight,
            Distance::First(segment) => at_hand.sampled[segment].first += weight,
        }
        if counts_units && at_hand.last_unit != Some(unit) {
            at_hand.last_unit = Some(unit);
            at_hand.units.insert(unit);
        }
    }

    fn totals(&mut self, row: Option<usize>, totals: Totals) {
        let Some(row) = row else { return };
        let segment = self.capacities.partition_point(|capacity| *capacity <= totals.others);
        let at_hand = self.row(row);
        at_hand.events = at_hand.events.saturating_add(totals.events);
        at_hand.repeats[segment] = at_hand.repeats[segment].saturating_add(totals.repeats);
        if totals.dropped > 0 {
            self.unknown(row, totals.dropped);
        }
    }
}
