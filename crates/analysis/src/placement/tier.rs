//! What may lie on slower memory: the objects that are hardly used.
//!
//! What not: where they go (the model); pages: an object is hot or cold as a whole, as a program can place it.
//!
//! Assumption: what the drawn bursts did not access is cold. The choice rests on the same bursts as the share that it gives, so that
//! this is rather low where many objects are about as cold.

use std::collections::HashMap;

use super::accessed::Watcher;
use crate::objects::{Object, ObjectId, ObjectKind};

/// Cold objects together have at most this share of the accesses.
const COLD: f64 = 0.1;
/// Smaller objects are not worth a placement of their own, bytes; `fathom place --object` takes none.
const LEAST: u64 = 1 << 20;

/// The objects with the fewest accesses per byte, as long as these are few; the largest first.
pub(super) fn cold(watcher: &Watcher<'_>) -> Vec<ObjectId> {
    let mut lines: HashMap<ObjectId, f64> = HashMap::new();
    for one in &watcher.found {
        *lines.entry(one.stretch.1).or_default() += one.lines;
    }
    let all: f64 = lines.values().sum();
    let of = |id: ObjectId| lines.get(&id).copied().unwrap_or(0.0);
    let objects = watcher.objects.all();
    let placeable =
        (0..objects.len()).map(ObjectId::new).filter(|id| can_move(&objects[id.index()]));
    let mut found: Vec<ObjectId> = placeable.collect();
    let density = |id: &ObjectId| of(*id) / objects[id.index()].bytes.max(1.0);
    found.sort_by(|a, b| density(a).total_cmp(&density(b)));
    let mut sum = 0.0;
    found.retain(|id| {
        let fits = sum + of(*id) <= COLD * all;
        sum += if fits { of(*id) } else { 0.0 };
        fits
    });
    found.sort_by(|a, b| objects[b.index()].bytes.total_cmp(&objects[a.index()].bytes));
    found
}

/// Memory of the program's own: pages of a file lie where the page cache has them.
fn can_move(object: &Object) -> bool {
    let own = match object.kind {
        ObjectKind::Heap | ObjectKind::Global => true,
        ObjectKind::Mapping => object.stack.is_some() && !object.name.starts_with('/'),
        _ => false,
    };
    own && object.largest.0 >= LEAST
}
