//! Rows of objects: everything that is known of each.
//!
//! What for: one row per key with traced accesses (`accesses`), loads, stores, traffic and latency over the run (`memory`), page
//! faults, and lines that threads take from each other (`sharing`). What not: any estimate of its own.

use std::borrow::Cow;
use std::collections::BTreeMap;

use base::RemoteAddr;
use facts::Metric;

use super::first_touch::{FirstTouch, first_touches, why_unknown};
use super::pages::{ObjectPages, object_pages};
use super::{Grouping, ObjectId, ObjectKind};
use crate::accesses::{AccessRow, Accesses, GroupedAccesses};
use crate::faults::fault_scales;
use crate::hotspots::{Key, RowKey};
use crate::memory::{Memory, PartRow};
use crate::sharing::{SharedLines, Sharing};
use crate::stack::{LocationId, NO_STACK};
use crate::stalls::{StallRow, StallRows, Stalls, stall_rows};
use crate::traced::{Site, SiteIndex};
use crate::types::UsedBytes;
use crate::weight::Weight;

/// What is known of an object, or of some code that uses it, or of a part of it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ObjectRow {
    /// What its traced accesses look like.
    pub accesses: Option<AccessRow>,
    /// Traffic, loads, stores and latency over the run.
    pub memory: Option<PartRow>,
    /// Page faults.
    pub faults: Weight,
    /// Lines in it that threads take from each other.
    pub shared_lines: u64,
    /// How they share them.
    pub sharing: Option<Sharing>,
    /// Bytes of a value of its type that the traces touch, and all bytes; by type or field only.
    pub used: Option<UsedBytes>,
    /// Clock samples that waited for it.
    pub stall: Option<StallRow>,
    /// A place of its code.
    pub place: Option<LocationId>,
}

impl ObjectRow {
    /// The place of its code with the most accesses.
    #[must_use]
    pub fn place(&self) -> LocationId {
        self.accesses.as_ref().map(|row| row.place).or(self.place).unwrap_or(NO_STACK)
    }

    /// Bytes that moved.
    #[must_use]
    pub fn traffic(&self) -> f64 {
        self.memory.as_ref().and_then(|row| row.moved.value).unwrap_or(0.0)
    }

    /// Time waited for it, bytes that moved, loads and stores, traced accesses: what rows are sorted by.
    #[must_use]
    pub fn weight(&self) -> [f64; 4] {
        let value = |metric: &Metric| metric.value.unwrap_or(0.0);
        let memory = self.memory.as_ref();
        [
            self.stall.map_or(0.0, |stall| stall.excess),
            self.traffic(),
            memory.map_or(0.0, |row| value(&row.loads) + value(&row.stores)),
            self.accesses.as_ref().map_or(0.0, |row| value(&row.accesses)),
        ]
    }
}

/// All rows.
pub struct ObjectTable {
    /// By key.
    pub rows: BTreeMap<RowKey, ObjectRow>,
    /// What was traced in all.
    pub accesses: Accesses,
    /// All page faults of the recording that have an address.
    pub fault_scale: crate::Scale,
    /// Shares of accesses of objects with small blocks, those without a record included, percent.
    pub with_unrecorded: BTreeMap<ObjectId, Metric>,
    /// The pages behind the memory of objects.
    pub pages: BTreeMap<ObjectId, ObjectPages>,
    /// Who touched the pages of objects first, largest share first; of others that is not known.
    pub first_touches: BTreeMap<ObjectId, Vec<FirstTouch>>,
    /// Why not.
    pub no_first_touch: &'static str,
    /// The type that most accesses to an object are to.
    pub element_types: BTreeMap<ObjectId, String>,
    /// Why there are no loads, stores, traffic and latency, if so.
    pub missing: Option<String>,
    /// What clock samples waited for, less the rows; `Err`: why that is not known.
    pub stalls: Result<StallRows, &'static str>,
}

impl ObjectTable {
    /// Shares of the traced accesses by the kind of object, percent. Rows must be by object.
    #[must_use]
    pub fn shares(&self, kind_of: impl Fn(ObjectId) -> ObjectKind) -> BTreeMap<ObjectKind, f64> {
        let mut shares = BTreeMap::new();
        for (key, row) in &self.rows {
            let share = row.accesses.as_ref().and_then(|row| row.share.value);
            if let Some((object, share)) = key.object.zip(share) {
                *shares.entry(kind_of(object)).or_default() += share;
            }
        }
        shares
    }
}

/// Joins everything. `accesses` are by the grouping, `memory` must distinguish what it does; `shared` finds the lines that
/// threads share in its selection, `unrecorded` the shares of [`estimated_shares`](super::estimated_shares) in it.
#[must_use]
pub fn object_table<'s>(
    grouping: &Grouping<'_>,
    (mut accesses, users): GroupedAccesses,
    memory: &Memory<'_>,
    stalls: &Stalls,
    shared: impl FnOnce() -> Cow<'s, SharedLines>,
    unrecorded: BTreeMap<ObjectId, Metric>,
) -> ObjectTable {
    let mut rows: BTreeMap<RowKey, ObjectRow> = BTreeMap::new();
    for row in accesses.rows.drain(..) {
        let key = row.key;
        rows.entry(key).or_default().accesses = Some(row);
    }
    let missing = match memory.part_rows(grouping) {
        Ok(found) => {
            for row in found {
                let key = row.key;
                rows.entry(key).or_default().memory = Some(row);
            }
            None
        }
        Err(why) => Some(why.to_owned()),
    };
    let mut found = match stalls.missing() {
        Some(why) => Err(why),
        None => Ok(stall_rows(grouping, stalls, &memory.objects_of_sites())),
    };
    for (key, stall) in found.iter_mut().flat_map(|found| std::mem::take(&mut found.rows)) {
        // A few samples that stand anywhere make no row of their own.
        if stall.excess <= 0.0 && !rows.contains_key(&key) {
            continue;
        }
        let row = rows.entry(key).or_default();
        row.stall = Some(stall);
        row.place = row.place.or(stall.place);
    }
    // A fault and a shared line belong to an object, but to no field: an address alone has no field.
    if grouping.keys.contains(&Key::Field) || grouping.keys.contains(&Key::Type) {
        add_used_bytes(grouping, &users, &mut rows);
    } else {
        add_faults(grouping, &mut rows);
        add_sharing(grouping, &shared(), &mut rows);
    }
    let fault_scale = fault_scales(grouping.profile.recording).all;
    let pages = object_pages(grouping.profile, grouping.objects);
    let first_touches = first_touches(grouping.profile, grouping.objects);
    let element_types = memory.element_types(&grouping.profile.types);
    ObjectTable {
        rows,
        accesses,
        fault_scale,
        with_unrecorded: unrecorded,
        pages,
        first_touches,
        no_first_touch: why_unknown(grouping.profile),
        element_types,
        missing,
        stalls: found,
    }
}

fn add_faults(grouping: &Grouping<'_>, rows: &mut BTreeMap<RowKey, ObjectRow>) {
    let profile = grouping.profile;
    for fault in &profile.recording.faults {
        let Some(thread) = profile.threads.find(fault.pid, fault.tid) else { continue };
        let stack = fault.stack.and_then(|id| profile.stacks.find(id));
        let place = profile.stacks.innermost_user(stack);
        let selection = grouping.selection;
        if !selection.has(thread, fault.time) {
            continue;
        }
        let at = (fault.pid, fault.address);
        let Some(key) = grouping.row_at(place, at, fault.time) else { continue };
        let row = rows.entry(key).or_default();
        row.faults.add(fault.weight);
        row.place = row.place.or(Some(place));
    }
}

fn add_sharing(
    grouping: &Grouping<'_>,
    found: &SharedLines,
    rows: &mut BTreeMap<RowKey, ObjectRow>,
) {
    for line in &found.lines {
        let mut seen: Vec<RowKey> = Vec::new();
        for thread in &line.threads {
            // The first byte of the line that it uses: a line may begin in front of the object.
            let first = u64::from((thread.read | thread.written).trailing_zeros().min(63));
            let at = (line.pid, RemoteAddr(line.address.0.saturating_add(first)));
            let Some(key) = grouping.row_at(thread.place, at, line.time) else { continue };
            if seen.contains(&key) {
                continue;
            }
            seen.push(key);
            let row = rows.entry(key).or_default();
            row.shared_lines += 1;
            row.place = row.place.or(Some(thread.place));
            row.sharing = match row.sharing {
                None => Some(line.sharing),
                Some(before) if before == line.sharing => Some(before),
                Some(_) => Some(Sharing::Both),
            };
        }
    }
}

/// Bytes of the values that the traces touch, by object and type.
fn add_used_bytes(
    grouping: &Grouping<'_>,
    users: &[(RowKey, SiteIndex)],
    rows: &mut BTreeMap<RowKey, ObjectRow>,
) {
    let (types, sites) = (&grouping.profile.types, &grouping.code.sites);
    let mut by_object: BTreeMap<Option<ObjectId>, Vec<&Site>> = BTreeMap::new();
    for (key, site) in users {
        by_object.entry(key.object).or_default().push(&sites[site.index()]);
    }
    let used: BTreeMap<_, _> =
        by_object.into_iter().map(|(object, sites)| (object, types.used_bytes(sites))).collect();
    for (key, site) in users {
        let Some(row) = rows.get_mut(key) else { continue };
        let of = types.type_of(&sites[site.index()]);
        row.used = row.used.or_else(|| used.get(&key.object)?.get(&of).copied());
    }
}
