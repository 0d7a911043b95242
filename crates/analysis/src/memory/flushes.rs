//! Flushes and fences of the whole program: how often, how many for nothing, and the time that samples spend at them.
//!
//! What for: what bursts show of them ([`crate::flushes`]), scaled to the run as loads and stores are, by code and object. What not: what a
//! flush writes to memory, which the cache model counts at the store that made the line dirty.
//!
//! Time: a clock sample has skid, so one at the instruction after a flush or fence is of it, too. A core waits for flushes at the fence, or
//! at the first store after it, which may not become visible before: on an AMD EPYC 9004, 106 of 128 samples of a loop that persists line
//! by line are at that store. So the samples at it are of the fence, by the share of its runs that follow a fence. By object, time is
//! divided as the lines are that were flushed, or waited for.

use std::collections::{BTreeMap, HashMap};

use base::CodeAddress;
use facts::{Burst, Evidence, Metric};

use super::Memory;
use super::quantity::Quantity;
use crate::figure::Figure;
use crate::flushes::{AfterFence, Counts, Event, OfBurst, Operation, Watcher};
use crate::hotspots::RowKey;
use crate::objects::{Grouping, Objects, Part};
use crate::stack::{LocationId, busiest};
use crate::traced::{Damage, TracedCode, flushes_line, is_flush, stream, traced_bursts};
use crate::weight::Weight;
use estimate::Bounds;

const NO_FLUSH: &str = "it flushes no line";
const NO_FENCE: &str = "none of its fences has anything to wait for";
/// A caller has at least this share of a library function's samples to be named in its place.
const MOST_CALLS: f64 = 0.9;

/// Flushes and fences that are shown together.
#[derive(Clone, PartialEq, Debug)]
pub struct FlushRow {
    /// What it is.
    pub key: RowKey,
    /// The place in it with most flushes and fences; of as many, that of the flushes.
    pub place: LocationId,
    /// The place of most flushes for nothing.
    pub redundant_place: LocationId,
    /// Flushes per second.
    pub flushes: Metric,
    /// Those of lines that were not dirty, percent.
    pub redundant: Figure,
    /// Non-temporal stores per second.
    pub streamed: Metric,
    /// Fences per second.
    pub fences: Metric,
    /// Lines that a fence waits for, of those that wait for any.
    pub lines_per_fence: Metric,
    /// Fences that wait for a line or two as one of many over neighbouring lines, percent of those that wait for any.
    pub alone: Figure,
    /// CPU time of samples at them, seconds.
    pub time: Metric,
    /// The same, percent of all.
    pub time_percent: Metric,
}

/// All rows.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct FlushTable {
    /// Most time first, then most flushes and fences.
    pub rows: Vec<FlushRow>,
    /// Bursts that were gone through.
    pub bursts: u64,
    /// Records of these that were not used: flushes and stores are missing.
    pub unused: u64,
}

/// What bursts saw, and samples at the same instructions.
struct ObservedFlushes {
    /// With the number of the work that each is part of.
    events: Vec<(Option<usize>, Event)>,
    damage: Damage,
    bursts: u64,
    times: BTreeMap<Operation, OfOperation>,
    /// What the time of each is divided by.
    counts: BTreeMap<Operation, f64>,
}

/// Samples at an instruction.
#[derive(Default)]
struct OfOperation {
    time: Weight,
    /// The part of these that is its own, ns.
    own: f64,
    /// Frames of its callers that have a source line.
    callers: BTreeMap<LocationId, u64>,
}

/// A row being summed up.
struct Sums {
    flushes: Quantity,
    redundant: Quantity,
    streamed: Quantity,
    fences: Quantity,
    waiting: Quantity,
    lines: Quantity,
    alone: Quantity,
    by_operation: BTreeMap<Operation, f64>,
    by_place: BTreeMap<LocationId, u64>,
    redundant_by_place: BTreeMap<LocationId, u64>,
}

/// Whether some code flushes lines, or writes past the caches and fences.
#[must_use]
pub fn flushes_any(code: &TracedCode) -> bool {
    let any = |of: fn(x86::Kind) -> bool| code.sites.iter().any(|site| of(site.access.kind));
    any(flushes_line) || any(is_flush) && code.fences.iter().any(|one| !one.locked)
}

/// Which place an operation is said to be at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlushPlace {
    /// Its own.
    Own,
    /// Of a library's function without source lines that of the call, where nearly all of its samples have one: that is the line to
    /// change.
    Caller,
}

impl Memory<'_> {
    /// By the keys of a grouping. Empty where nothing is flushed.
    ///
    /// # Errors
    /// Why it is not known.
    pub fn flushes(&self, grouping: &Grouping<'_>, said: FlushPlace) -> Result<FlushTable, &str> {
        self.available()?;
        if !flushes_any(self.code) {
            return Ok(FlushTable::default());
        }
        let seen = self.seen_flushes(grouping);
        let unknown = Part::whole(Objects::unknown());
        let place = |operation: &Operation| {
            let caller = || seen.times.get(operation)?.caller();
            let own = self.own_place(*operation);
            let lacks_line = self.profile.stacks.places[own.index()].line.is_none();
            let caller = (said == FlushPlace::Caller && lacks_line).then(caller).flatten();
            caller.unwrap_or(own)
        };
        let mut rows: BTreeMap<RowKey, Sums> = BTreeMap::new();
        for (work, event) in &seen.events {
            let at = place(&event.operation);
            // Of a fence without lines to wait for no object is known.
            let key = grouping.key(at, event.part.unwrap_or(unknown));
            let (Some(key), Some(work)) = (key, work) else { continue };
            let row = rows.entry(key).or_insert_with(|| Sums::none(self.passed.bursts.len()));
            row.add(*work, event, at);
        }
        let rows = rows.into_iter().map(|(key, sums)| self.flush_row(key, &sums, &seen));
        let mut rows: Vec<FlushRow> = rows.collect();
        let amount = |row: &FlushRow| {
            let [time, flushes, fences] =
                [&row.time, &row.flushes, &row.fences].map(|one| one.value.unwrap_or(0.0));
            (time, flushes + fences)
        };
        rows.sort_by(|a, b| amount(b).partial_cmp(&amount(a)).unwrap_or(std::cmp::Ordering::Equal));
        Ok(FlushTable {
            rows,
            bursts: seen.bursts,
            unused: seen.damage.records + seen.damage.pieces + self.code.unusable_blocks,
        })
    }

    /// Where an operation is, in the function as compiled: flushes and fences are often those of small helpers or intrinsics that are
    /// inlined, and the line that uses these is of interest.
    fn own_place(&self, operation: Operation) -> LocationId {
        self.profile.stacks.compiled_place_at(self.address_of(operation))
    }

    fn address_of(&self, operation: Operation) -> CodeAddress {
        match operation {
            Operation::Site(site) => self.code.sites[site.index()].instruction,
            Operation::Fence(fence) => self.code.fences[fence.index()].address,
        }
    }

    fn seen_flushes(&self, grouping: &Grouping<'_>) -> ObservedFlushes {
        let recording = self.profile.recording;
        let chosen = |burst: &&Burst| self.has_burst(burst.id);
        let bursts: Vec<&Burst> = traced_bursts(recording, self.code).filter(chosen).collect();
        let objects = (grouping.objects, grouping.pieces());
        let watcher = || Watcher::new(self.profile, self.code, objects);
        let (mut events, mut after) = (Vec::new(), Vec::new());
        let (damage, _) = stream(recording, self.code, &bursts, watcher, |_, found: OfBurst| {
            let of_work = |event| (self.work_of(found.number, &event), event);
            events.extend(found.events.into_iter().map(of_work));
            after.extend(found.after_fences);
        });
        let operations = events.iter().map(|(_, event): &(_, Event)| event);
        let mut counts: BTreeMap<Operation, f64> = BTreeMap::new();
        for event in operations {
            *counts.entry(event.operation).or_default() += event.counts.share();
        }
        let times = self.times_of(counts.keys().copied(), &after);
        ObservedFlushes { events, damage, bursts: bursts.len() as u64, times, counts }
    }

    /// The work of a burst that an event is part of; none where its rates are not used.
    fn work_of(&self, burst: usize, event: &Event) -> Option<usize> {
        let works = &self.passed.bursts;
        let from = works.partition_point(|work| work.burst < burst);
        let of_burst = works[from..].iter().take_while(|work| work.burst == burst);
        let place = event.at.and_then(|site| self.strata.region_of(site));
        let found = of_burst.clone().position(|work| Some(work.place) == place);
        (of_burst.count() > 0).then_some(from + found.unwrap_or(0))
    }

    /// Samples at each operation and behind it, and at stores after fences.
    fn times_of(
        &self,
        operations: impl Iterator<Item = Operation>,
        after: &[AfterFence],
    ) -> BTreeMap<Operation, OfOperation> {
        // A locked access is a fence in some of its runs, as a store after a fence is.
        let is_locked = |one: &Operation| match one {
            Operation::Fence(fence) => self.code.fences[fence.index()].locked,
            Operation::Site(_) => false,
        };
        let mut by_address: HashMap<CodeAddress, (Operation, f64)> = operations
            .filter(|one| !is_locked(one))
            .map(|one| (self.address_of(one), (one, 1.0)))
            .collect();
        let mut of_stores: BTreeMap<CodeAddress, (BTreeMap<Operation, u64>, u64)> = BTreeMap::new();
        for AfterFence { fence, store, times, of } in after {
            let address = self.code.sites[store.index()].instruction;
            let (fences, all) = of_stores.entry(address).or_default();
            *fences.entry(Operation::Fence(*fence)).or_default() += times;
            *all += of;
        }
        for (address, (fences, all)) in of_stores {
            // Nearly always there is one.
            let most = fences.into_iter().max_by_key(|(_, times)| *times);
            let Some((fence, times)) = most else { continue };
            let share = times as f64 / all.max(1) as f64;
            by_address.entry(address).or_insert((fence, share));
        }
        let stacks = &self.profile.stacks;
        let mut of_node: Vec<Option<(Operation, f64)>> = stacks.of_each_node(|_| None);
        for node in &self.profile.recording.stack_nodes {
            let address = node.code_address();
            let behind = || by_address.get(self.code.behind_stores.get(&address)?);
            let found = by_address.get(&address).or_else(behind);
            if let (Some(at), Some(found)) = (stacks.find(node.id), found) {
                of_node[at.index()] = Some(*found);
            }
        }
        let mut times: BTreeMap<Operation, OfOperation> = BTreeMap::new();
        for cell in self.profile.cells(&self.selection).iter().filter(|cell| !cell.kernel) {
            let found = cell.stack.and_then(|node| of_node[node.index()]);
            let Some((operation, share)) = found else { continue };
            let of = times.entry(operation).or_default();
            of.time.merge(&cell.weight);
            of.own += cell.weight.amount() as f64 * share;
            let has_line = |place: &LocationId| stacks.places[place.index()].line.is_some();
            if let Some(caller) = stacks.frames(cell.stack).skip(1).find(has_line) {
                *of.callers.entry(caller).or_default() += cell.weight.amount();
            }
        }
        times
    }

    fn flush_row(&self, key: RowKey, sums: &Sums, seen: &ObservedFlushes) -> FlushRow {
        let elapsed = self.selection.observed(self.profile).seconds().max(1e-9);
        let rate = |quantity: &Quantity| {
            let rates = (0..).zip(&quantity.0).map(|(at, n)| n.best / self.strata.seconds_of(at));
            // A burst whose thread's clock had not moved on has no rate.
            let most = rates.filter(|rate| rate.is_finite()).fold(0.0, f64::max);
            let count = self.strata.amount(quantity, "count", Evidence::Estimated, most);
            count.times(1.0 / elapsed, "count/s")
        };
        let percent = |part: &Quantity, whole: &Quantity, nothing| {
            let whole_count = self.expansion().total(whole);
            let of = (100.0, "percent");
            let evidence = Evidence::Estimated;
            let share = self.expansion().ratio(part, &whole_count, of, evidence, nothing);
            let bursts = whole.0.iter().filter(|one| one.best > 0.0).count();
            // None in a few bursts is not none (`Strata::opened`).
            match share.value == Some(0.0) {
                true => {
                    let high = (300.0 / bursts.max(3) as f64).min(100.0);
                    Figure::from(Metric { high: Some(high), ..share.metric() })
                }
                false => share,
            }
        };
        let waiting = self.expansion().total(&sums.waiting);
        let lines = (1.0, "count");
        let lines_per_fence =
            self.expansion().ratio(&sums.lines, &waiting, lines, Evidence::Estimated, NO_FENCE);
        let (time, part) = sums.time(seen);
        let scale = self.profile.cpu_scale();
        let of_row = |metric: Metric| {
            let unit = metric.unit.clone();
            metric.times(part, &unit)
        };
        FlushRow {
            key,
            place: busiest(&sums.by_place),
            redundant_place: busiest(&sums.redundant_by_place),
            flushes: rate(&sums.flushes),
            redundant: percent(&sums.redundant, &sums.flushes, NO_FLUSH),
            streamed: rate(&sums.streamed),
            fences: rate(&sums.fences),
            lines_per_fence: lines_per_fence.metric(),
            alone: percent(&sums.alone, &sums.waiting, NO_FENCE),
            time: of_row(scale.quantity(&time)),
            time_percent: of_row(scale.percent(&time)),
        }
    }
}

impl OfOperation {
    /// The frame that nearly all samples have, if there is one.
    fn caller(&self) -> Option<LocationId> {
        let (place, amount) = self.callers.iter().max_by_key(|(_, amount)| **amount)?;
        let enough = *amount as f64 >= MOST_CALLS * self.time.amount() as f64;
        enough.then_some(*place)
    }
}

impl Counts {
    /// What its part of an instruction's time is in proportion to.
    fn share(&self) -> f64 {
        match (self.flushes + self.streamed, self.lines) {
            (0, 0) => self.fences as f64 * 1e-3,
            (0, lines) => lines as f64,
            (sites, _) => sites as f64,
        }
    }
}

impl Sums {
    fn none(works: usize) -> Sums {
        let none = || Quantity::none(works);
        Sums {
            flushes: none(),
            redundant: none(),
            streamed: none(),
            fences: none(),
            waiting: none(),
            lines: none(),
            alone: none(),
            by_operation: BTreeMap::new(),
            by_place: BTreeMap::new(),
            redundant_by_place: BTreeMap::new(),
        }
    }

    fn add(&mut self, work: usize, event: &Event, place: LocationId) {
        let Counts { flushes, redundant, streamed, fences, waiting, lines, alone } = event.counts;
        for (quantity, count) in [
            (&mut self.flushes, flushes),
            (&mut self.redundant, redundant),
            (&mut self.streamed, streamed),
            (&mut self.fences, fences),
            (&mut self.waiting, waiting),
            (&mut self.lines, lines),
            (&mut self.alone, alone),
        ] {
            quantity.add(work, Bounds::exactly(count as f64));
        }
        *self.by_operation.entry(event.operation).or_default() += event.counts.share();
        let weight = flushes.saturating_add(streamed).saturating_mul(2).saturating_add(fences);
        *self.by_place.entry(place).or_default() += weight;
        *self.redundant_by_place.entry(place).or_default() += redundant;
    }

    /// Samples at its operations, and the part of them that is of this row.
    fn time(&self, seen: &ObservedFlushes) -> (Weight, f64) {
        let (mut all, mut own) = (Weight::default(), 0.0);
        for (operation, share) in &self.by_operation {
            let Some(of) = seen.times.get(operation) else { continue };
            all.merge(&of.time);
            own += of.own * share / seen.counts[operation].max(1e-9);
        }
        (all, if all.is_empty() { 1.0 } else { (own / all.amount().max(1) as f64).min(1.0) })
    }
}
