//! Single accesses of bursts, for plots of address over time.
//!
//! What for: a plot shows patterns that no figure shows: blocks, sweeps back and forth, two streams at once.
//! [`Heat`] counts all accesses of the bursts by part of the object and time. What not: figures of the program. The points are a few
//! of the accesses (the first ones of each burst); do not sum them. Heat is of what bursts recorded, not expanded to the run.

use std::collections::{BTreeMap, HashMap};

use base::{BurstId, Bytes, IndexMap, Nanos, RemoteAddr};
use facts::Burst;
use x86::Kind;

use crate::objects::{NearObjects, ObjectId, Objects};
use crate::profile::Profile;
use crate::traced::{Execution, Run, SiteIndex, Tool, Touch, TracedBlock, TracedCode, in_order};

/// Points of one object.
const MOST: usize = 1500;
/// Points of one object in one burst: so that several bursts are seen.
const MOST_OF_BURST: usize = 150;
/// Points of one run of a loop.
const MOST_OF_RUN: u64 = 24;
/// Objects with points, the first that come up.
const MOST_OBJECTS: usize = 400;

/// Slices of the recording's time, and parts of an object at most, for its heat. A part is a cache line at least.
const SLICES: usize = 48;
const PARTS: u64 = 48;
const LEAST_PART: u64 = 64;
/// A run of a loop is counted in so many pieces at most, each where its middle is.
const PIECES: u64 = 64;

/// One access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AccessPoint {
    /// The burst.
    pub burst: BurstId,
    /// How many iterations of loops and blocks the burst had executed before.
    pub step: u64,
    /// From the start of the object's block, variable or region.
    pub offset: Bytes,
    /// Whether it writes.
    pub store: bool,
}

/// The points by object, each in the order of the accesses.
pub type PointsByObject = HashMap<ObjectId, Vec<AccessPoint>>;

/// Recorded accesses to an object by part of it and time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Heat {
    /// Bytes of a part; offsets are from the start of the object's block, variable or region.
    pub part: u64,
    /// Loads and stores of parts, by slice of time and part.
    pub cells: BTreeMap<(u32, u64), [u64; 2]>,
}

impl Default for Heat {
    fn default() -> Heat {
        Heat { part: LEAST_PART, cells: BTreeMap::new() }
    }
}

impl Heat {
    fn add(&mut self, slice: u32, offset: u64, store: bool, count: u64) {
        while offset / self.part >= PARTS {
            self.part *= 2;
            for ((slice, part), counts) in std::mem::take(&mut self.cells) {
                let cell = self.cells.entry((slice, part / 2)).or_default();
                (0..2).for_each(|at| cell[at] = cell[at].saturating_add(counts[at]));
            }
        }
        let cell = self.cells.entry((slice, offset / self.part)).or_default();
        let sum = &mut cell[usize::from(store)];
        *sum = sum.saturating_add(count);
    }

    /// All accesses.
    #[must_use]
    pub fn accesses(&self) -> u64 {
        self.cells.values().flatten().fold(0, |sum: u64, count| sum.saturating_add(*count))
    }
}

/// What bursts show of single accesses.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Accesses {
    /// Some of them.
    pub points: PointsByObject,
    /// All of them, counted.
    pub heat: HashMap<ObjectId, Heat>,
    /// How many bursts there are in each slice of time.
    pub bursts: Vec<u64>,
    /// Length of a slice.
    pub slice: Nanos,
}

/// Goes through the traced bursts.
#[must_use]
pub fn access_points(profile: &Profile<'_>, code: &TracedCode, objects: &Objects) -> Accesses {
    let mut points = Points {
        code,
        near: NearObjects::new(code.sites.len(), objects),
        found: vec![Found::default(); objects.all().len()],
        with_points: 0,
        heat: IndexMap::default(),
        bursts: vec![0; SLICES],
        length: Nanos(profile.elapsed().0.div_ceil(SLICES as u64).max(1)),
        slice: 0,
        burst: None,
        step: 0,
        seen: Vec::new(),
    };
    in_order(profile.recording, code, &mut points);
    let Points { found, heat, bursts, length, .. } = points;
    let found = found.into_iter().enumerate().filter(|(_, one)| one.is_known);
    Accesses {
        points: found.map(|(at, one)| (ObjectId::new(at), one.points)).collect(),
        heat: heat.into_iter().collect(),
        bursts,
        slice: length,
    }
}

/// The points of an object.
#[derive(Clone, Default)]
struct Found {
    /// It is one of [`MOST_OBJECTS`].
    is_known: bool,
    points: Vec<AccessPoint>,
    /// The last burst with a point, and how many it has.
    burst: Option<BurstId>,
    of_burst: usize,
}

struct Points<'a> {
    code: &'a TracedCode,
    near: NearObjects<'a>,
    /// By object.
    found: Vec<Found>,
    /// How many objects are known.
    with_points: usize,
    heat: IndexMap<ObjectId, Heat>,
    bursts: Vec<u64>,
    /// Of a slice of time, and the slice that the burst began in.
    length: Nanos,
    slice: u32,
    burst: Option<BurstId>,
    step: u64,
    /// Iteration, site and address of some accesses of the execution at hand, and whether they write; kept for its memory.
    seen: Vec<(u64, SiteIndex, u64, bool)>,
}

impl Points<'_> {
    fn count(&mut self, site: SiteIndex, run: Run, store: bool) {
        let pieces = run.count.min(PIECES);
        // Pieces of one part are added together.
        let mut sum: Option<(ObjectId, u64, u64)> = None;
        for piece in 0..pieces {
            // Their sizes differ by one at most, and add up to all.
            let (from, to) = (run.count * piece / pieces, run.count * (piece + 1) / pieces);
            let address = run.at(from + (to - from) / 2);
            let (located, _) = self.near.at(site, RemoteAddr(address));
            let offset = address.saturating_sub(located.start.0);
            let one = (located.object, offset / LEAST_PART);
            match &mut sum {
                Some((object, part, count)) if (*object, *part) == one => *count += to - from,
                _ => {
                    self.heat_up(sum.replace((one.0, one.1, to - from)), store);
                }
            }
        }
        self.heat_up(sum, store);
    }

    fn heat_up(&mut self, sum: Option<(ObjectId, u64, u64)>, store: bool) {
        let Some((object, part, count)) = sum else { return };
        let known = self.heat.len() < MOST_OBJECTS || self.heat.contains_key(&object);
        if object != Objects::unknown() && known {
            let heat = self.heat.entry(object).or_default();
            heat.add(self.slice, part * LEAST_PART, store, count);
        }
    }

    /// Whether the object takes no further point of this burst.
    fn is_full(&self, object: ObjectId) -> bool {
        let found = &self.found[object.index()];
        match found.is_known {
            true => {
                let of_burst = if found.burst == self.burst { found.of_burst } else { 0 };
                of_burst >= MOST_OF_BURST || found.points.len() >= MOST
            }
            false => object == Objects::unknown() || self.with_points >= MOST_OBJECTS,
        }
    }

    fn take(&mut self, step: u64, site: SiteIndex, address: u64, store: bool) {
        let (located, _) = self.near.at(site, RemoteAddr(address));
        let Some(burst) = self.burst.filter(|_| !self.is_full(located.object)) else { return };
        let found = &mut self.found[located.object.index()];
        if !std::mem::replace(&mut found.is_known, true) {
            self.with_points += 1;
        }
        if found.burst.replace(burst) != Some(burst) {
            found.of_burst = 0;
        }
        found.of_burst += 1;
        let offset = Bytes(address.saturating_sub(located.start.0));
        found.points.push(AccessPoint { burst, step, offset, store });
    }

    /// Notes the first accesses of a touch, unless none of them would be taken.
    fn see(&mut self, site: SiteIndex, touch: Touch, store: bool) {
        let Some(run) = touch.run() else { return };
        let taken = run.count.min(MOST_OF_RUN);
        // Spread over the run; a count is bounded by the burst's time, so nothing overflows.
        let apart = run.count / taken.max(1);
        let (located, extent) = self.near.at(site, RemoteAddr(run.start));
        let last = RemoteAddr(run.at(taken.saturating_sub(1) * apart));
        let stays = run.ends().is_some() && extent.has(last);
        if stays && self.is_full(located.object) {
            return;
        }
        self.seen.extend((0..taken).map(|at| (at * apart, site, run.at(at * apart), store)));
    }
}

impl Tool for Points<'_> {
    type OfBurst = ();

    fn begin(&mut self, burst: &Burst, _: usize) {
        self.near.begin(burst);
        self.burst = Some(burst.id);
        self.step = 0;
        self.slice = (burst.time.0 / self.length.0).min(SLICES as u64 - 1) as u32;
        self.bursts[self.slice as usize] += 1;
    }

    fn execute(&mut self, block: &TracedBlock, execution: &Execution<'_>) {
        for access in &block.accesses {
            let site = access.site;
            let store = match self.code.sites[site.index()].access.kind {
                Kind::Read | Kind::StreamingRead => false,
                Kind::Write | Kind::ReadWrite | Kind::StreamingWrite => true,
                // Hints access nothing.
                _ => continue,
            };
            execution.touches(access).for_each(|touch| {
                self.see(site, touch, store);
                if let Some(run) = touch.run() {
                    self.count(site, run, store);
                }
            });
        }
        let mut seen = std::mem::take(&mut self.seen);
        seen.sort_by_key(|(iteration, ..)| *iteration);
        for (iteration, site, address, store) in seen.drain(..) {
            self.take(self.step.saturating_add(iteration), site, address, store);
        }
        self.seen = seen;
        self.step = self.step.saturating_add(execution.iterations());
    }

    fn end(&mut self, _: &Burst) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_grow_with_the_object_and_keep_all_accesses() {
        let mut heat = Heat::default();
        for at in 0..1000_u64 {
            heat.add((at % 3) as u32, at * 100, at % 4 == 0, 2);
        }
        assert_eq!(heat.accesses(), 2000);
        // 100 000 bytes in at most 48 parts that are powers of two.
        assert_eq!(heat.part, 4096);
        let stores: u64 = heat.cells.values().map(|[_, stores]| stores).sum();
        assert_eq!(stores, 500);
        assert_eq!(heat.cells.keys().map(|(_, part)| *part).max(), Some(24));
        // 0 to 4000 by steps of 300, each twice.
        let first: u64 = heat.cells[&(0, 0)].iter().sum();
        assert_eq!(first, 2 * 14);
    }
}
