//! Single accesses of bursts, for plots of address over time.
//!
//! What for: a plot shows patterns that no figure shows: blocks, sweeps back and forth, two streams at once.
//! What not: figures. The points are a few of the accesses (the first ones of each burst); do not sum them.

use std::collections::HashMap;

use base::{BurstId, Bytes, RemoteAddr};
use facts::Burst;
use x86::Kind;

use crate::objects::{ObjectId, Objects, Window};
use crate::profile::Profile;
use crate::traced::{Execution, Tool, Touch, TracedBlock, TracedCode, in_order};

/// Points of one object.
const MOST: usize = 1500;
/// Points of one object in one burst: so that several bursts are seen.
const MOST_OF_BURST: usize = 150;
/// Points of one run of a loop.
const MOST_OF_RUN: u64 = 24;
/// Objects with points, the first that come up.
const MOST_OBJECTS: usize = 400;

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

/// Goes through the traced bursts.
#[must_use]
pub fn access_points(
    profile: &Profile<'_>,
    code: &TracedCode,
    objects: &Objects,
) -> PointsByObject {
    let window = Window { start: base::Nanos(0), end: base::Nanos(0) };
    let mut points = Points {
        code,
        objects,
        found: HashMap::new(),
        of_burst: HashMap::new(),
        burst: None,
        window,
        step: 0,
    };
    in_order(profile.recording, code, &mut points);
    points.found
}

struct Points<'a> {
    code: &'a TracedCode,
    objects: &'a Objects,
    found: PointsByObject,
    of_burst: HashMap<ObjectId, usize>,
    burst: Option<(BurstId, base::Pid)>,
    window: Window,
    step: u64,
}

impl Points<'_> {
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
    }

    fn execute(&mut self, block: &TracedBlock, execution: &Execution<'_>) {
        let mut seen: Vec<(u64, u64, bool)> = Vec::new();
        for access in &block.accesses {
            let store = match self.code.sites[access.site.index()].access.kind {
                Kind::Read | Kind::StreamingRead => false,
                Kind::Write | Kind::ReadWrite | Kind::StreamingWrite => true,
                // Hints access nothing.
                _ => continue,
            };
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
        self.step = self.step.saturating_add(execution.iterations());
    }

    fn end(&mut self, _: &Burst) {
        self.burst = None;
    }
}
