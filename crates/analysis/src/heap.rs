//! The heap: totals, and per row who allocated how much, for how long, and what is left.
//!
//! Totals are counted at every call; what is live only where the size of every block was remembered until its free
//! (`memory-consumption`), else it comes from recorded blocks. So do rows. Large ones all have a record and weigh 1. Smaller ones were
//! drawn with the probability p = 1 - exp(-size / every) and weigh 1/p, which makes sums unbiased (Horvitz and Thompson, 1952);
//! the variance of a sum of x/p is the sum of x² (1-p)/p² over the drawn. A row without any drawn small block may hold up to
//! 3 `every` bytes of them (95 %: exp(-3) is the chance to draw none), and no more than the program's small blocks have.
//! What not: blocks of an allocator that the program brings itself.

mod call;
mod exact;
mod frees;
mod huge_pages;
mod lifetimes;
mod over_time;
mod size_classes;

pub use call::AskedBy;
pub use exact::is_exact;
pub use frees::{FreeRow, FreeTable, Freed, free_table};
pub use huge_pages::{HUGE_PAGES, huge_pages};
pub use lifetimes::{LifetimeRow, LifetimeTable, Lived, lifetime_table};
pub use over_time::{HeapBin, heap_over_time};
pub use size_classes::{SizeClassRow, size_class_table};

use std::collections::{BTreeMap, HashMap};

use base::{AllocationId, Bytes, Nanos, StackId};
use facts::{
    Allocation, AllocationCall, Analysis, Evidence, HeapTotal, LostSource, Metric, Recording,
    Release, RunState, Target,
};

use crate::hotspots::{Key, RowKey};
use crate::objects::{asking_place, weight};
use crate::profile::Profile;
use crate::selection::Selection;
use crate::stack::{CallPaths, LocationId, busiest};

const NOT_COUNTED: &str = "heap blocks are counted by `fathom collect memory-consumption`";
const NOT_COUNTED_HERE: &str = "no heap blocks were recorded: the notes of this result say why";
const NOT_EVERY_BLOCK: &str =
    "known where every block is recorded: `fathom collect memory-consumption -k stacks=all`";
const NONE_RECORDED: &str =
    "no block was large or drawn: `fathom collect memory-consumption` counts what is live";
const TOTALS_LOST: &str = "the recording was cut off before the totals were written";

/// What is freed within this time after it was allocated is called temporary.
pub const TEMPORARY: Nanos = Nanos(1_000_000);

/// What was counted of all processes.
#[derive(Clone, PartialEq, Debug)]
pub struct HeapSums {
    /// Blocks allocated.
    pub allocations: Metric,
    /// Bytes in them, as asked for.
    pub bytes: Metric,
    /// Most bytes live at once, in the process where that is the most.
    pub peak: Metric,
    /// Bytes live at the end, of all processes.
    pub live: Metric,
}

/// Blocks allocated and bytes in them, as counted.
#[must_use]
pub fn heap_allocated(recording: &Recording) -> (Metric, Metric) {
    let totals = &recording.heap_totals;
    if totals.is_empty() {
        let missing = |unit| Metric::unavailable(unit, why_not_counted(recording));
        return (missing("count"), missing("bytes"));
    }
    let sum = |of: fn(&HeapTotal) -> u64| totals.iter().map(|total| of(total) as f64).sum::<f64>();
    let (blocks, bytes) = (sum(|total| total.allocations), sum(|total| total.allocated.0));
    (Metric::counted(blocks, "count"), Metric::counted(bytes, "bytes"))
}

/// The counted totals. Where frees were not counted, what was live takes a look at every recorded block.
#[must_use]
pub fn heap_sums(recording: &Recording) -> HeapSums {
    let totals = &recording.heap_totals;
    let (allocations, bytes) = heap_allocated(recording);
    if totals.is_empty() {
        return HeapSums { allocations, peak: bytes.clone(), live: bytes.clone(), bytes };
    }
    let (mut peak, live) = counted_live(totals).unwrap_or_else(|| recorded_live(recording));
    if totals.len() > 1 {
        peak = peak.noted(&format!("the largest of {} processes'", totals.len()));
    }
    HeapSums { allocations, bytes, peak, live }
}

/// The highest peak of a process, and what is live at the end of all; `None` where live bytes were not counted.
fn counted_live(totals: &[HeapTotal]) -> Option<(Metric, Metric)> {
    let highest = totals.iter().max_by_key(|total| total.peak)?;
    let (peak, doubt) = (highest.peak?.0 as f64, highest.peak_doubt.0 as f64);
    let mut most = Metric::counted(peak, "bytes");
    (most.low, most.high) = (Some((peak - doubt).max(0.0)), Some(peak + doubt));
    let live = totals.iter().map(|total| {
        let had = total.allocated.0.saturating_add(total.inherited.0);
        Some(had.saturating_sub(total.freed?.0) as f64)
    });
    Some((most, Metric::counted(live.sum::<Option<f64>>()?, "bytes")))
}

/// The same by recorded blocks. What a child had from its parent is not in it.
fn recorded_live(recording: &Recording) -> (Metric, Metric) {
    let mut tally = Tally::of(recording);
    for block in &recording.allocations {
        let key = RowKey { process: Some(block.pid), ..RowKey::default() };
        tally.add(key, block, crate::stack::NO_STACK);
    }
    let scale = Scale::of(recording);
    let (sums, all) = tally.finish();
    let rows = sums.iter().map(|(key, sums)| scale.row(*key, sums));
    let highest =
        rows.max_by(|a, b| a.peak.value.unwrap_or(0.0).total_cmp(&b.peak.value.unwrap_or(0.0)));
    match highest {
        Some(row) => (row.peak, scale.row(RowKey::default(), &all).live),
        None => {
            let none = Metric::unavailable("bytes", NONE_RECORDED);
            (none.clone(), none)
        }
    }
}

/// Why there are no totals. The kind of collection decides whether they were expected.
fn why_not_counted(recording: &Recording) -> &'static str {
    let run = &recording.run;
    let attached = matches!(run.target, Some(Target::Attached { .. }));
    let objects = run.knobs.get("analyze-mem-objects").is_none_or(|objects| objects != "false");
    let wanted = match run.analysis {
        Analysis::MemoryConsumption => true,
        Analysis::MemoryAccess => attached && objects,
        _ => false,
    };
    match (wanted, run.state) {
        _ if !recording.allocations.is_empty() => TOTALS_LOST,
        (true, RunState::Complete) => NOT_COUNTED_HERE,
        (true, RunState::Incomplete) => TOTALS_LOST,
        (false, _) => NOT_COUNTED,
    }
}

/// Blocks live at the end of all processes, without those that a child had from its parent; `None` where frees were not
/// counted.
fn live_blocks(recording: &Recording) -> Option<Metric> {
    let totals = &recording.heap_totals;
    let live =
        totals.iter().map(|total| Some(total.allocations.saturating_sub(total.frees?) as f64));
    let metric = Metric::counted(live.sum::<Option<f64>>()?, "count");
    if totals.iter().all(|total| total.inherited == Bytes(0)) {
        return Some(metric);
    }
    Some(
        metric
            .noted("at least: a child frees blocks of its parent, and only their bytes are known"),
    )
}

/// A sum over recorded blocks.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct Estimate {
    sum: f64,
    variance: f64,
}

impl Estimate {
    /// Adds `x` of a block with this weight.
    fn add(&mut self, x: f64, weight: f64) {
        self.sum += x * weight;
        self.variance += x * x * weight * (weight - 1.0);
    }
}

/// One row.
#[derive(Clone, PartialEq, Debug)]
pub struct HeapRow {
    /// What it is.
    pub key: RowKey,
    /// The place in it that allocated the most bytes.
    pub place: LocationId,
    /// Blocks allocated.
    pub allocations: Metric,
    /// Bytes in them.
    pub bytes: Metric,
    /// Share of all bytes allocated.
    pub bytes_percent: Metric,
    /// Most bytes of this row live at once; where every block was recorded, its bytes that were live when those of its
    /// process were at their peak.
    pub peak: Metric,
    /// Its share of all that was live when its process had the most; known where every block was recorded.
    pub peak_percent: Metric,
    /// Bytes of this row live at the end.
    pub live: Metric,
    /// Blocks of this row live at the end.
    pub live_blocks: Metric,
    /// Mean time from allocation to free, of the blocks that were freed.
    pub lifetime: Metric,
    /// Share of blocks freed within [`TEMPORARY`]; where every block was recorded, of those that the thread which asked for
    /// them freed before it asked for another.
    pub temporary: Metric,
}

/// All rows, most bytes first.
pub struct HeapTable {
    /// The rows.
    pub rows: Vec<HeapRow>,
    /// All selected blocks as one row; the counted totals where nothing is filtered out.
    pub total: Option<HeapRow>,
    /// Present with [`Key::CallStack`].
    pub paths: Option<CallPaths>,
}

/// What is summed up for a row.
#[derive(Clone, Default)]
struct Sums {
    allocations: Estimate,
    bytes: Estimate,
    /// Blocks and drawn blocks behind it.
    records: u64,
    drawn: u64,
    live: f64,
    peak: f64,
    freed: f64,
    lifetime: f64,
    temporary: f64,
    places: BTreeMap<LocationId, f64>,
}

/// How the rows of a recording are to be read.
struct Scale {
    /// Mean bytes between drawn blocks; 0 when every block has a record.
    every: f64,
    /// The blocks that were drawn from: how many, and their bytes.
    small: (f64, f64),
    lost: u64,
    all_bytes: Option<f64>,
}

impl Scale {
    fn of(recording: &Recording) -> Scale {
        let every =
            recording.allocations.iter().map(|block| block.sample_every.0).max().unwrap_or(0);
        let large: Vec<&Allocation> =
            recording.allocations.iter().filter(|block| block.sample_every == Bytes(0)).collect();
        let sum = |of: fn(&HeapTotal) -> u64| {
            recording.heap_totals.iter().map(|t| of(t) as f64).sum::<f64>()
        };
        let small = sum(|total| total.allocations) - large.len() as f64;
        let bytes = sum(|total| total.allocated.0);
        let small_bytes = bytes - large.iter().map(|block| block.size.0 as f64).sum::<f64>();
        // Nothing was drawn although there were small blocks: the knob says from how many.
        let knob = || {
            let knobs = &recording.run.knobs;
            let all = knobs.get("stacks").is_some_and(|value| value == "all");
            let every = knobs.get("mem-object-sampling").and_then(|text| text.parse::<f64>().ok());
            if all || small < 1.0 { 0.0 } else { every.unwrap_or(524_288.0) }
        };
        Scale {
            every: if every > 0 { every as f64 } else { knob() },
            small: (small.max(0.0), small_bytes.max(0.0)),
            lost: recording.lost(LostSource::Allocations),
            all_bytes: (bytes > 0.0).then_some(bytes),
        }
    }

    /// An estimate with its interval; `unseen` is what a row may hold of blocks that were not drawn.
    fn metric(&self, sum: Estimate, unit: &str, sums: &Sums, unseen: f64) -> Metric {
        if self.every == 0.0 && self.lost == 0 {
            return Metric { samples: sums.records, ..Metric::counted(sum.sum, unit) };
        }
        let half = 1.96 * sum.variance.sqrt();
        let unseen = if sums.drawn == 0 { unseen } else { 0.0 };
        let interval = ((sum.sum - half).max(0.0), sum.sum + half + unseen);
        Metric::with_interval(Evidence::Sampled, sum.sum, unit, interval, sums.records)
            .with_lost(self.lost)
    }

    /// Blocks and bytes that may be in a row of which none was drawn.
    fn unseen(&self) -> (f64, f64) {
        let (small, small_bytes) = self.small;
        let unseen = (3.0 * self.every).min(small_bytes);
        // As many blocks as bytes, at their mean size.
        let blocks = if small_bytes > 0.0 { unseen * small / small_bytes } else { small };
        (blocks, unseen)
    }

    fn row(&self, key: RowKey, sums: &Sums) -> HeapRow {
        let (unseen_blocks, unseen) = self.unseen();
        let place = sums.places.iter().max_by(|a, b| a.1.total_cmp(b.1)).map(|(place, _)| *place);
        let bytes = self.metric(sums.bytes, "bytes", sums, unseen);
        // What is live is known of the same blocks, with the same doubt for each byte.
        let part = |value: f64, of: Estimate, unit: &str, unseen: f64| {
            let share = if of.sum > 0.0 { value / of.sum } else { 0.0 };
            let variance = of.variance * share;
            self.metric(Estimate { sum: value, variance }, unit, sums, unseen)
        };
        let live_blocks = (sums.allocations.sum - sums.freed).max(0.0);
        let evidence = if self.every == 0.0 { Evidence::Counted } else { Evidence::Sampled };
        let plain = |value: f64, unit: &str, samples: u64| Metric {
            low: None,
            high: None,
            note: Some("a mean over recorded blocks, without an interval".to_owned()),
            ..Metric::with_interval(evidence, value, unit, (value, value), samples)
        };
        HeapRow {
            key,
            place: place.unwrap_or(crate::stack::NO_STACK),
            allocations: self.metric(sums.allocations, "count", sums, unseen_blocks),
            bytes_percent: percent(&bytes, self.all_bytes),
            bytes,
            peak: part(sums.peak, sums.bytes, "bytes", unseen),
            peak_percent: Metric::unavailable("percent", NOT_EVERY_BLOCK),
            live: part(sums.live.max(0.0), sums.bytes, "bytes", unseen),
            live_blocks: part(live_blocks, sums.allocations, "count", unseen_blocks),
            lifetime: if sums.freed > 0.0 {
                plain(sums.lifetime / sums.freed, "s", sums.records)
            } else {
                Metric::unavailable("s", "no recorded block of it was freed")
            },
            temporary: if sums.allocations.sum > 0.0 {
                plain(sums.temporary / sums.allocations.sum * 100.0, "percent", sums.records)
            } else {
                Metric::unavailable("percent", "no block of it was recorded")
            },
        }
    }
}

fn percent(part: &Metric, whole: Option<f64>) -> Metric {
    let Some(whole) = whole else { return Metric::unavailable("percent", TOTALS_LOST) };
    part.each("percent", |part| (part / whole * 100.0).min(100.0))
}

/// Groups the selected blocks by `keys`. No keys mean [`Key::Function`].
#[must_use]
pub fn heap_table(profile: &Profile<'_>, selection: &Selection, keys: &[Key]) -> HeapTable {
    let keys = if keys.is_empty() { &[Key::Function] } else { keys };
    let recording = profile.recording;
    if is_exact(recording) {
        return exact::table(profile, selection, keys);
    }
    let paths = keys.contains(&Key::CallStack).then(|| profile.stacks.call_paths());
    let scale = Scale::of(recording);
    let mut tally = Tally::of(recording);
    for block in &recording.allocations {
        let thread = profile.threads.find(block.pid, block.tid);
        if !selection.may_have(thread, block.time) {
            continue;
        }
        let asked = asked_by((profile, selection), (keys, paths.as_ref()), block.stack, block.call);
        let Some((mut key, place)) = asked else { continue };
        if let Some(thread) = thread {
            key = key.with_thread_of(RowKey::of_thread(keys, profile, thread));
        }
        tally.add(key, block, place);
    }
    let (sums, all) = tally.finish();
    let mut rows: Vec<HeapRow> = sums.iter().map(|(key, sums)| scale.row(*key, sums)).collect();
    rows.sort_by(|a, b| b.bytes.value.unwrap_or(0.0).total_cmp(&a.bytes.value.unwrap_or(0.0)));
    let mut total = (all.records > 0).then(|| scale.row(RowKey::default(), &all));
    if !selection.chooses_anything() && !recording.heap_totals.is_empty() {
        total = total.map(|total| counted_total(recording, total, scale.all_bytes));
    }
    HeapTable { rows, total, paths }
}

/// The total, with what was counted of the whole program; `whole`: bytes of all.
fn counted_total(recording: &Recording, total: HeapRow, whole: Option<f64>) -> HeapRow {
    let (allocations, bytes) = heap_allocated(recording);
    let bytes_percent = percent(&bytes, whole);
    let total = match live_blocks(recording) {
        Some(live_blocks) => {
            let HeapSums { peak, live, .. } = heap_sums(recording);
            HeapRow { peak, live, live_blocks, ..total }
        }
        None => total,
    };
    HeapRow { allocations, bytes, bytes_percent, ..total }
}

/// The row of who asked for blocks, without thread and process, and the place; `None` where that code is not selected.
fn asked_by(
    (profile, selection): (&Profile<'_>, &Selection),
    (keys, paths): (&[Key], Option<&CallPaths>),
    stack: Option<StackId>,
    call: AllocationCall,
) -> Option<(RowKey, LocationId)> {
    let stack = stack.and_then(|id| profile.stacks.find(id));
    let place = asking_place(&profile.stacks, stack);
    let key = || RowKey {
        stack: paths.filter(|_| keys.contains(&Key::CallStack)).map(|paths| paths.of(stack)),
        call: AskedBy::key(keys, &profile.stacks, stack, call),
        ..RowKey::at(keys, &profile.stacks, place)
    };
    selection.has_place(place).then(|| (key(), place))
}

/// Recorded blocks by row.
struct Tally<'a> {
    releases: HashMap<AllocationId, &'a Release>,
    sums: BTreeMap<RowKey, Sums>,
    all: Sums,
    changes: Vec<(Nanos, bool, RowKey, f64)>,
}

impl<'a> Tally<'a> {
    fn of(recording: &'a Recording) -> Tally<'a> {
        let releases = recording.releases.iter();
        Tally {
            releases: releases.map(|release| (release.allocation, release)).collect(),
            sums: BTreeMap::new(),
            all: Sums::default(),
            changes: Vec::new(),
        }
    }

    fn add(&mut self, key: RowKey, block: &Allocation, place: LocationId) {
        let release = self.releases.get(&block.id).copied();
        let weight = weight(block);
        for row in [self.sums.entry(key).or_default(), &mut self.all] {
            add(row, block, release, weight, place);
        }
        let bytes = block.size.0 as f64 * weight;
        self.changes.push((block.time, true, key, bytes));
        self.changes.extend(release.map(|release| (release.time, false, key, bytes)));
    }

    /// The sums of each row and of all, with what was live.
    fn finish(mut self) -> (BTreeMap<RowKey, Sums>, Sums) {
        follow(&mut self.changes, &mut self.sums, &mut self.all);
        (self.sums, self.all)
    }
}

fn add(
    row: &mut Sums,
    block: &Allocation,
    release: Option<&Release>,
    weight: f64,
    place: LocationId,
) {
    let bytes = block.size.0 as f64;
    row.allocations.add(1.0, weight);
    row.bytes.add(bytes, weight);
    row.records += 1;
    row.drawn += u64::from(block.sample_every != Bytes(0));
    *row.places.entry(place).or_default() += bytes * weight;
    if let Some(release) = release {
        let lived = release.time - block.time;
        row.freed += weight;
        row.lifetime += lived.seconds() * weight;
        row.temporary += if lived <= TEMPORARY { weight } else { 0.0 };
    }
}

/// Follows what is live over time. At one moment frees come first: `realloc` gives before it takes.
fn follow(
    changes: &mut [(Nanos, bool, RowKey, f64)],
    sums: &mut BTreeMap<RowKey, Sums>,
    all: &mut Sums,
) {
    changes.sort_by_key(|(time, allocated, ..)| (*time, *allocated));
    for (_, allocated, key, bytes) in changes.iter() {
        let row = sums.get_mut(key);
        for sums in row.into_iter().chain([&mut *all]) {
            sums.live += if *allocated { *bytes } else { -bytes };
            sums.peak = sums.peak.max(sums.live);
        }
    }
}
