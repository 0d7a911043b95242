//! What frees the blocks that code allocated: sums over every block ([`facts::HeapFree`]).
//!
//! What for: rows divide the blocks of an allocation site by free stack, with a row for blocks that were not freed; so they add
//! up. What not: recordings of some blocks, which hold no stack of a free; threads (as in `exact`). With a filter on time there
//! is no row of blocks that were not freed: blocks freed in that time may have been allocated before.

use std::collections::BTreeMap;

use base::{Pid, StackId};
use facts::{AllocationCall, LostSource, Metric};

use super::{asked_by, busiest, heap_allocated, percent};
use crate::hotspots::{Key, RowKey};
use crate::profile::Profile;
use crate::selection::Selection;
use crate::stack::{CallPathId, CallPaths, LocationId};

/// What became of blocks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Freed {
    /// Freed by this call stack.
    Stack(CallPathId),
    /// Live at the end.
    Never,
}

/// Blocks that one row of code allocated and one call stack freed.
#[derive(Clone, PartialEq, Debug)]
pub struct FreeRow {
    /// The allocation site.
    pub key: RowKey,
    /// The place in it with the most bytes.
    pub place: LocationId,
    /// The code that freed.
    pub freed: Freed,
    /// Blocks.
    pub allocations: Metric,
    /// Bytes in them.
    pub bytes: Metric,
    /// Share of all bytes allocated.
    pub bytes_percent: Metric,
}

/// All rows, most bytes first.
pub struct FreeTable {
    /// The rows.
    pub rows: Vec<FreeRow>,
    /// Blocks and bytes of all rows, and the share.
    pub total: Option<[Metric; 3]>,
    /// What [`Freed::Stack`] and [`RowKey::stack`] point to.
    pub paths: CallPaths,
}

#[derive(Default)]
struct Sums {
    blocks: u64,
    bytes: u64,
    places: BTreeMap<LocationId, u64>,
}

/// Live blocks: allocated less freed, by the same key. May be negative on the way.
#[derive(Default)]
struct LiveBlocks {
    blocks: i128,
    bytes: i128,
    places: BTreeMap<LocationId, i128>,
}

impl LiveBlocks {
    fn add(&mut self, place: LocationId, blocks: i128, bytes: i128) {
        self.blocks += blocks;
        self.bytes += bytes;
        *self.places.entry(place).or_default() += bytes;
    }
}

/// Groups the selected blocks by `keys` of who asked, and by who freed. Keys of code or process; none mean [`Key::Function`].
#[must_use]
pub fn free_table(profile: &Profile<'_>, selection: &Selection, keys: &[Key]) -> FreeTable {
    let recording = profile.recording;
    let paths = profile.stacks.call_paths();
    let only = [Key::Function];
    let named = keys.iter().any(|key| *key != Key::FreeStack);
    let keys = if named { keys } else { &only };
    let who = |pid: Pid, stack: Option<StackId>| {
        let whole = selection.has_whole_process(profile, pid);
        // How blocks were asked for is not asked of frees.
        let call = AllocationCall::Malloc;
        let (mut key, place) = asked_by((profile, selection), (keys, Some(&paths)), stack, call)?;
        key.process = keys.contains(&Key::Process).then_some(pid);
        whole.then_some((key, place))
    };
    let mut sums: BTreeMap<(RowKey, Freed), Sums> = BTreeMap::new();
    let mut left: BTreeMap<RowKey, LiveBlocks> = BTreeMap::new();
    for fact in recording.heap_frees.iter().filter(|fact| selection.has_time(fact.time)) {
        let Some((key, place)) = who(fact.pid, fact.stack) else { continue };
        let by = paths.of(fact.free_stack.and_then(|id| profile.stacks.find(id)));
        let sum = sums.entry((key, Freed::Stack(by))).or_default();
        sum.blocks = sum.blocks.saturating_add(fact.frees);
        sum.bytes = sum.bytes.saturating_add(fact.freed.0);
        let of_place = sum.places.entry(place).or_default();
        *of_place = of_place.saturating_add(fact.freed.0);
        left.entry(key).or_default().add(place, -i128::from(fact.frees), -i128::from(fact.freed.0));
    }
    if selection.time().is_none() {
        for fact in &recording.heap_stacks {
            let Some((key, place)) = who(fact.pid, fact.stack) else { continue };
            let (blocks, bytes) = (fact.allocations.into(), fact.allocated.0.into());
            left.entry(key).or_default().add(place, blocks, bytes);
        }
        sums.extend(
            left.into_iter().filter_map(|(key, left)| Some(((key, Freed::Never), rest(left)?))),
        );
    }
    rows(profile, sums, selection.chooses_anything(), paths)
}

/// Blocks that were not freed, if any.
fn rest(left: LiveBlocks) -> Option<Sums> {
    let count = |sum: i128| u64::try_from(sum.max(0)).unwrap_or(u64::MAX);
    let places = left.places.into_iter().map(|(place, bytes)| (place, count(bytes))).collect();
    let sums = Sums { blocks: count(left.blocks), bytes: count(left.bytes), places };
    (sums.blocks > 0).then_some(sums)
}

fn rows(
    profile: &Profile<'_>,
    sums: BTreeMap<(RowKey, Freed), Sums>,
    filtered: bool,
    paths: CallPaths,
) -> FreeTable {
    let lost = profile.recording.lost(LostSource::Allocations);
    let (counted, counted_bytes) = heap_allocated(profile.recording);
    let whole = counted_bytes.value.filter(|bytes| *bytes > 0.0);
    let figures = |blocks: u64, bytes: u64| {
        let metric = |value: u64, unit| Metric {
            samples: blocks,
            ..Metric::counted(value as f64, unit).with_lost(lost)
        };
        let bytes = metric(bytes, "bytes");
        let share = percent(&bytes, whole);
        [metric(blocks, "count"), bytes, share]
    };
    let (mut blocks, mut bytes) = (0u64, 0u64);
    let mut rows: Vec<FreeRow> = Vec::with_capacity(sums.len());
    for ((key, freed), sums) in sums {
        blocks = blocks.saturating_add(sums.blocks);
        bytes = bytes.saturating_add(sums.bytes);
        let place = busiest(&sums.places);
        let [allocations, bytes, bytes_percent] = figures(sums.blocks, sums.bytes);
        rows.push(FreeRow { key, place, freed, allocations, bytes, bytes_percent });
    }
    rows.sort_by(|a, b| b.bytes.value.unwrap_or(0.0).total_cmp(&a.bytes.value.unwrap_or(0.0)));
    let total = (!rows.is_empty()).then(|| match (filtered, counted_bytes.value) {
        (false, Some(_)) => {
            let share = percent(&counted_bytes, whole);
            [counted, counted_bytes, share]
        }
        _ => figures(blocks, bytes),
    });
    FreeTable { rows, total, paths }
}
