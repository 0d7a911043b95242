//! How long blocks lived: per row of code, in classes of lifetimes with the same number of binary digits in nanoseconds.
//!
//! What for: many short lifetimes in one row are an allocation that a reused block would save.
//! Where every block was recorded, all are counted ([`facts::HeapLifetime`]). Otherwise only blocks whose size guarantees a
//! record: too few blocks drawn at random end for a distribution.
//! What not: threads (as in `exact`). With a filter on time there is no row of blocks that were not freed: the sums are of frees in
//! that time, whose blocks may have been allocated before.

use std::collections::{BTreeMap, HashMap};

use base::{Bytes, Nanos, Pid, StackId};
use facts::{AllocationCall, LostSource, Metric, Recording};

use super::{TEMPORARY, asked_by, busiest, heap_allocated, is_exact, percent};
use crate::hotspots::{Key, RowKey};
use crate::profile::Profile;
use crate::selection::Selection;
use crate::stack::{CallPaths, LocationId, NO_STACK};

/// A class of lifetimes; the longer ones are greater.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Lived {
    /// From allocation to free; the longest of the class is 0 or a power of two less 1.
    UpTo(Nanos),
    /// Live at the end.
    ToTheEnd,
}

impl Lived {
    fn of(lifetime: Nanos) -> Lived {
        Lived::UpTo(Nanos(u64::MAX.checked_shr(lifetime.0.leading_zeros()).unwrap_or(0)))
    }

    /// The shortest and the longest lifetime of the class; `None` for what lived to the end.
    #[must_use]
    pub fn range(self) -> Option<(Nanos, Nanos)> {
        match self {
            Lived::UpTo(longest) => Some((Nanos(longest.0.div_ceil(2)), longest)),
            Lived::ToTheEnd => None,
        }
    }
}

/// Blocks of one row of code that lived about so long.
#[derive(Clone, PartialEq, Debug)]
pub struct LifetimeRow {
    /// The place that allocated.
    pub key: RowKey,
    /// The place in it with the most bytes.
    pub place: LocationId,
    /// How long they lived.
    pub lived: Lived,
    /// Blocks.
    pub allocations: Metric,
    /// Share of the blocks of the whole table.
    pub allocations_percent: Metric,
    /// Bytes in them.
    pub bytes: Metric,
    /// Share of all bytes allocated.
    pub bytes_percent: Metric,
    /// Share of these blocks that were temporary, as in [`super::HeapRow::temporary`].
    pub temporary: Metric,
}

/// All rows: those of the code with the most bytes first, short lives before long ones.
pub struct LifetimeTable {
    /// The rows.
    pub rows: Vec<LifetimeRow>,
    /// All of them as one.
    pub total: Option<LifetimeRow>,
    /// What [`RowKey::stack`] points to.
    pub paths: CallPaths,
}

#[derive(Default)]
struct Sums {
    blocks: u64,
    bytes: u64,
    temporary: u64,
    places: BTreeMap<LocationId, u64>,
}

impl Sums {
    fn add(&mut self, place: LocationId, [blocks, bytes, temporary]: [u64; 3]) {
        self.blocks = self.blocks.saturating_add(blocks);
        self.bytes = self.bytes.saturating_add(bytes);
        self.temporary = self.temporary.saturating_add(temporary);
        let of_place = self.places.entry(place).or_default();
        *of_place = of_place.saturating_add(bytes);
    }
}

/// The place that allocated.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Asked {
    pid: Pid,
    stack: Option<StackId>,
    call: AllocationCall,
}

/// Groups the selected blocks by `keys` of who asked, and by how long they lived. Keys of code, call or process; none mean
/// [`Key::Function`].
#[must_use]
pub fn lifetime_table(profile: &Profile<'_>, selection: &Selection, keys: &[Key]) -> LifetimeTable {
    let only = [Key::Function];
    let keys = if keys.iter().any(|key| *key != Key::Lifetime) { keys } else { &only };
    let paths = profile.stacks.call_paths();
    let mut rows: BTreeMap<RowKey, BTreeMap<Lived, Sums>> = BTreeMap::new();
    let mut add = |asked: Asked, lived: Lived, parts: [u64; 3]| {
        let Asked { pid, stack, call } = asked;
        let found = asked_by((profile, selection), (keys, Some(&paths)), stack, call);
        let Some((mut key, place)) = found.filter(|_| parts[0] > 0) else { return };
        key.process = keys.contains(&Key::Process).then_some(pid);
        rows.entry(key).or_default().entry(lived).or_default().add(place, parts);
    };
    if is_exact(profile.recording) {
        every_block(profile, selection, &mut add);
    } else {
        large_blocks(profile, selection, &mut add);
    }
    finish(profile.recording, rows, paths)
}

fn every_block(
    profile: &Profile<'_>,
    selection: &Selection,
    mut add: impl FnMut(Asked, Lived, [u64; 3]),
) {
    let recording = profile.recording;
    let freed = recording.heap_lifetimes.iter().filter(|fact| selection.has_time(fact.time));
    for fact in freed.filter(|fact| selection.has_whole_process(profile, fact.pid)) {
        let asked = Asked { pid: fact.pid, stack: fact.stack, call: fact.call };
        add(asked, Lived::UpTo(fact.longest), [fact.frees, fact.freed.0, fact.temporary]);
    }
    if selection.time().is_some() {
        return;
    }
    let mut left: HashMap<Asked, [i128; 2]> = HashMap::new();
    let sums = recording.heap_stacks.iter();
    for fact in sums.filter(|fact| selection.has_whole_process(profile, fact.pid)) {
        let asked = Asked { pid: fact.pid, stack: fact.stack, call: fact.call };
        let [blocks, bytes] = left.entry(asked).or_default();
        *blocks += i128::from(fact.allocations) - i128::from(fact.frees);
        *bytes += i128::from(fact.allocated.0) - i128::from(fact.freed.0);
    }
    for (asked, left) in left {
        let [blocks, bytes] = left.map(|sum| u64::try_from(sum.max(0)).unwrap_or(u64::MAX));
        add(asked, Lived::ToTheEnd, [blocks, bytes, 0]);
    }
}

fn large_blocks(
    profile: &Profile<'_>,
    selection: &Selection,
    mut add: impl FnMut(Asked, Lived, [u64; 3]),
) {
    let recording = profile.recording;
    let ends: HashMap<_, Nanos> =
        recording.releases.iter().map(|release| (release.allocation, release.time)).collect();
    for block in recording.allocations.iter().filter(|block| block.sample_every == Bytes(0)) {
        let thread = profile.threads.find(block.pid, block.tid);
        if !selection.may_have(thread, block.time) {
            continue;
        }
        let lifetime = ends.get(&block.id).map(|end| *end - block.time);
        let temporary = u64::from(lifetime.is_some_and(|lifetime| lifetime <= TEMPORARY));
        let asked = Asked { pid: block.pid, stack: block.stack, call: block.call };
        let lived = lifetime.map_or(Lived::ToTheEnd, Lived::of);
        add(asked, lived, [1, block.size.0, temporary]);
    }
}

fn finish(
    recording: &Recording,
    rows: BTreeMap<RowKey, BTreeMap<Lived, Sums>>,
    paths: CallPaths,
) -> LifetimeTable {
    let lost = recording.lost(LostSource::Allocations);
    let whole = heap_allocated(recording).1.value.filter(|bytes| *bytes > 0.0);
    let mut all = Sums::default();
    for sums in rows.values().flat_map(BTreeMap::values) {
        all.add(NO_STACK, [sums.blocks, sums.bytes, sums.temporary]);
    }
    let row = |key: RowKey, lived: Lived, sums: &Sums| {
        let counted = |value: f64, unit: &str| Metric {
            samples: sums.blocks,
            ..Metric::counted(value, unit).with_lost(lost)
        };
        let share = |part: u64, of: u64| counted(part as f64 / of as f64 * 100.0, "percent");
        let bytes = counted(sums.bytes as f64, "bytes");
        LifetimeRow {
            key,
            place: busiest(&sums.places),
            lived,
            allocations: counted(sums.blocks as f64, "count"),
            allocations_percent: share(sums.blocks, all.blocks),
            bytes_percent: percent(&bytes, whole),
            bytes,
            temporary: share(sums.temporary, sums.blocks),
        }
    };
    let mut found: Vec<(&RowKey, &BTreeMap<Lived, Sums>)> = rows.iter().collect();
    let bytes = |classes: &BTreeMap<Lived, Sums>| {
        classes.values().fold(0, |sum: u64, class| sum.saturating_add(class.bytes))
    };
    found.sort_by_key(|(_, classes)| std::cmp::Reverse(bytes(classes)));
    let classes = found.into_iter().flat_map(|(key, classes)| {
        let row = &row;
        classes.iter().map(move |(lived, sums)| row(*key, *lived, sums))
    });
    let total = (all.blocks > 0).then(|| row(RowKey::default(), Lived::ToTheEnd, &all));
    LifetimeTable { rows: classes.collect(), total, paths }
}
