//! Single accesses of bursts, for plots of address over time.
//!
//! What for: a plot shows patterns that no figure shows: blocks, sweeps back and forth, two streams at once.
//! [`Heat`] counts all accesses of the bursts by part of the object and time. What not: figures of the program. The points are a few
//! of the accesses (the first ones of each burst); do not sum them. Heat is of what bursts recorded, not expanded to the run.

use std::collections::{BTreeMap, HashMap};

use base::{BurstId, Bytes, Nanos, RemoteAddr};
use facts::Burst;
use x86::Kind;

use crate::objects::{ObjectId, Objects, Window};
use crate::profile::Profile;
use crate::traced::{Execution, Run, Tool, Touch, TracedBlock, TracedCode, in_order};

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
    let window = Window { start: Nanos(0), end: Nanos(0) };
    let mut points = Points {
        code,
        objects,
        found: HashMap::new(),
        heat: HashMap::new(),
        bursts: vec![0; SLICES],
        slice: Nanos(profile.elapsed().0.div_ceil(SLICES as u64).max(1)),
        of_burst: HashMap::new(),
        burst: None,
        window,
        step: 0,
    };
    in_order(profile.recording, code, &mut points);
    let Points { found, heat, bursts, slice, .. } = points;
    Accesses { points: found, heat, bursts, slice }
}

struct Points<'a> {
    code: &'a TracedCode,
    objects: &'a Objects,
    found: PointsByObject,
    heat: HashMap<ObjectId, Heat>,
    bursts: Vec<u64>,
    slice: Nanos,
    of_burst: HashMap<ObjectId, usize>,
    burst: Option<(BurstId, base::Pid)>,
    window: Window,
    step: u64,
}

impl Points<'_> {
    /// The slice of time that the burst began in.
    fn slice(&self) -> u32 {
        let at = self.window.start.0 / self.slice.0;
        at.min(SLICES as u64 - 1) as u32
    }

    fn count(&mut self, run: Run, store: bool) {
        let Some((_, pid)) = self.burst else { return };
        let slice = self.slice();
        let pieces = run.count.min(PIECES);
        for piece in 0..pieces {
            // Their sizes differ by one at most, and add up to all.
            let (from, to) = (run.count * piece / pieces, run.count * (piece + 1) / pieces);
            let middle = from + (to - from) / 2;
            let address = run.start.wrapping_add_signed(run.stride.wrapping_mul(middle as i64));
            let (located, _) = self.objects.locate(pid, RemoteAddr(address), self.window);
            let known = self.heat.contains_key(&located.object);
            if located.object == Objects::unknown() || (!known && self.heat.len() >= MOST_OBJECTS) {
                continue;
            }
            let offset = address.saturating_sub(located.start.0);
            self.heat.entry(located.object).or_default().add(slice, offset, store, to - from);
        }
    }

    fn take(&mut self, step: u64, address: u64, store: bool) {
        let Some((burst, pid)) = self.burst else { return };
        let address = RemoteAddr(address);
        let (located, _) = self.objects.locate(pid, address, self.window);
        if located.object == Objects::unknown() {
            return;
        }
        let many = self.found.len() >= MOST_OBJECTS;
        if many && !self.found.contains_key(&located.object) {
            return;
        }
        let of_burst = self.of_burst.entry(located.object).or_default();
        let points = self.found.entry(located.object).or_default();
        if *of_burst < MOST_OF_BURST && points.len() < MOST {
            *of_burst += 1;
            let offset = Bytes(address.0.saturating_sub(located.start.0));
            points.push(AccessPoint { burst, step, offset, store });
        }
    }
}

impl Tool for Points<'_> {
    type OfBurst = ();

    fn begin(&mut self, burst: &Burst, _: usize) {
        self.burst = Some((burst.id, burst.pid));
        self.window = Window { start: burst.time, end: burst.time + burst.elapsed };
        self.of_burst.clear();
        self.step = 0;
        let slice = self.slice() as usize;
        self.bursts[slice] += 1;
    }

    fn execute(&mut self, block: &TracedBlock, execution: &Execution<'_>) {
        let mut seen: Vec<(u64, u64, bool)> = Vec::new();
        let mut runs: Vec<(Run, bool)> = Vec::new();
        for access in &block.accesses {
            let store = match self.code.sites[access.site.index()].access.kind {
                Kind::Read | Kind::StreamingRead => false,
                Kind::Write | Kind::ReadWrite | Kind::StreamingWrite => true,
                // Hints access nothing.
                _ => continue,
            };
            execution.touches(access).for_each(|touch| {
                if let Some(run) = touch.run() {
                    runs.push((run, store));
                }
            });
            execution.touches(access).for_each(|touch| match touch {
                Touch::Run { start, stride, count, .. } => {
                    let taken = count.min(MOST_OF_RUN);
                    for at in 0..taken {
                        // Spread over the run; a count is bounded by the burst's time, so nothing overflows.
                        let iteration = at * (count / taken);
                        let address =
                            start.wrapping_add_signed(stride.wrapping_mul(iteration as i64));
                        seen.push((iteration, address, store));
                    }
                }
                Touch::AtLeast { start, .. } => seen.push((0, start, store)),
                Touch::Unknown { .. } => {}
            });
        }
        seen.sort_by_key(|(iteration, ..)| *iteration);
        for (iteration, address, store) in seen {
            self.take(self.step.saturating_add(iteration), address, store);
        }
        runs.into_iter().for_each(|(run, store)| self.count(run, store));
        self.step = self.step.saturating_add(execution.iterations());
    }

    fn end(&mut self, _: &Burst) {
        self.burst = None;
    }
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
