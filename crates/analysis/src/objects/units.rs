//! Sites × parts: which part of which object an access of a site goes to.
//!
//! What for: passes over traced accesses keep sums per site. With objects, they keep them per *unit*: a site and a part of an
//! object. Without objects units are sites, and nothing is looked up.
//! What not: sums.
//!
//! Parts: whole objects, or pieces of their ranges: cache lines, or single bytes where an access begins; or pages by NUMA node. Large objects have wider
//! pieces, a power of two of bytes, so that no range has more than [`MOST_PIECES`]. Pieces at one distance from their range's
//! start are one part, whichever of the object's blocks it is: offsets in nodes of a list.
//!
//! Cost: an access near to the last one of its site costs two comparisons.

use base::{Bytes, IndexMap, NodeId, Pid, RemoteAddr};
use facts::Burst;

use super::{Extent, ObjectId, Objects, Window};
use crate::stack::index;
use crate::traced::{SiteIndex, Touch};

index!(/// A site and a part.
    UnitIndex);

/// No page is smaller.
const BASE_PAGE: u64 = 4096;
/// Most pieces of one range.
const MOST_PIECES: u64 = 1024;
/// A run that goes through several units is cut into no more pieces; the rest goes where the last piece went.
pub(crate) const MOST_CUTS: u64 = 1 << 16;

/// How finely objects are taken apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Pieces {
    /// Not at all.
    #[default]
    Whole,
    /// Cache lines, counted from the start of a range.
    Lines,
    /// By the offset of an access's first byte.
    Offsets,
    /// By the NUMA node that has the page.
    Nodes,
}

/// Bytes of an object's ranges.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Piece {
    /// From the start of the range.
    pub offset: Bytes,
    /// How many.
    pub bytes: Bytes,
}

/// A part of an object.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Part {
    pub(crate) object: ObjectId,
    pub(crate) piece: Option<Piece>,
    /// The node, where parts are by node and it is known.
    pub(crate) node: Option<NodeId>,
}

impl Part {
    /// All of an object.
    pub(crate) fn whole(object: ObjectId) -> Part {
        Part { object, piece: None, node: None }
    }
}

#[derive(Clone, Copy, Debug)]
struct Unit {
    site: SiteIndex,
    part: Part,
}

/// The unit of a site's last access, and where it holds.
#[derive(Clone, Copy, Debug)]
struct Last {
    unit: UnitIndex,
    extent: Extent,
}

/// All units that came up.
pub(crate) struct Units<'a> {
    objects: Option<(&'a Objects, Pieces)>,
    units: Vec<Unit>,
    known: IndexMap<(SiteIndex, Part), UnitIndex>,
    /// Of each site, in this burst.
    last: Vec<Option<Last>>,
    looked_up: Vec<SiteIndex>,
    pid: Pid,
    window: Window,
}

impl<'a> Units<'a> {
    /// For this many sites.
    pub(crate) fn new(sites: usize, objects: Option<(&'a Objects, Pieces)>) -> Units<'a> {
        let mut units = Units {
            objects,
            units: Vec::new(),
            known: IndexMap::default(),
            last: vec![None; sites],
            looked_up: Vec::new(),
            pid: Pid(0),
            window: Window { start: base::Nanos(0), end: base::Nanos(0) },
        };
        if objects.is_none() {
            let part = Part::whole(Objects::unknown());
            units.units = (0..sites).map(|at| Unit { site: SiteIndex::new(at), part }).collect();
        }
        units
    }

    /// From here on accesses are of this burst.
    pub(crate) fn begin(&mut self, burst: &Burst) {
        for site in self.looked_up.drain(..) {
            self.last[site.index()] = None;
        }
        self.pid = burst.pid;
        self.window = Window { start: burst.time, end: burst.time + burst.elapsed };
    }

    /// The unit of an access, and the addresses for which it is the same one.
    #[inline]
    pub(crate) fn at(&mut self, site: SiteIndex, address: RemoteAddr) -> (UnitIndex, Extent) {
        if self.objects.is_none() {
            return (UnitIndex::new(site.index()), Extent::ALL);
        }
        match self.last[site.index()] {
            Some(last) if last.extent.has(address) => (last.unit, last.extent),
            _ => self.look_up(site, address),
        }
    }

    fn look_up(&mut self, site: SiteIndex, address: RemoteAddr) -> (UnitIndex, Extent) {
        let (part, extent) = self.locate(address);
        let (units, unit) = (&mut self.units, Unit { site, part });
        let unit = *self.known.entry((site, part)).or_insert_with(|| {
            units.push(unit);
            UnitIndex::new(units.len() - 1)
        });
        if self.last[site.index()].replace(Last { unit, extent }).is_none() {
            self.looked_up.push(site);
        }
        (unit, extent)
    }

    /// The part of an object at an address in this burst.
    pub(crate) fn locate(&self, address: RemoteAddr) -> (Part, Extent) {
        match self.objects {
            Some((objects, pieces)) => objects.part(self.pid, address, self.window, pieces),
            None => (Part::whole(Objects::unknown()), Extent::ALL),
        }
    }

    pub(crate) fn site_of(&self, unit: UnitIndex) -> SiteIndex {
        self.units[unit.index()].site
    }

    pub(crate) fn part_of(&self, unit: UnitIndex) -> Part {
        self.units[unit.index()].part
    }

    /// Whether units are more than sites.
    pub(crate) fn divides(&self) -> bool {
        self.objects.is_some()
    }
}

/// The rows that units belong to, grouped in one way or several: for passes that sum up by row.
pub(crate) struct UnitRows<'a> {
    units: Units<'a>,
    /// The rows of each unit that is known, one for each way; `None` for those that are not asked for.
    row_of_unit: Vec<Option<usize>>,
    ways: usize,
    /// The row of a new one, in each way.
    new_unit: Vec<Box<NewUnit<'a>>>,
    /// The position of the burst at hand.
    burst: usize,
}

/// Where a unit came first: the position of the burst, and the number of units before it in this pass.
pub(crate) type First = (usize, usize);

/// Says which row a site and a part belong to.
pub(crate) type NewUnit<'a> = dyn FnMut(SiteIndex, Part, First) -> Option<usize> + Send + 'a;

impl<'a> UnitRows<'a> {
    /// Of sites alone; of each way the row of each site.
    pub(crate) fn of_sites(ways: &[&[Option<usize>]]) -> UnitRows<'a> {
        let sites = ways.first().map_or(0, |rows| rows.len());
        let row_of_unit = (0..sites).flat_map(|site| ways.iter().map(move |rows| rows[site]));
        UnitRows {
            units: Units::new(sites, None),
            row_of_unit: row_of_unit.collect(),
            ways: ways.len(),
            new_unit: Vec::new(),
            burst: 0,
        }
    }

    /// For this many sites and for parts of objects; `new_unit` gives the row of a site and a part, in each way.
    pub(crate) fn of_objects(
        sites: usize,
        objects: (&'a Objects, Pieces),
        new_unit: Vec<Box<NewUnit<'a>>>,
    ) -> UnitRows<'a> {
        let (units, ways) = (Units::new(sites, Some(objects)), new_unit.len());
        UnitRows { units, row_of_unit: Vec::new(), ways, new_unit, burst: 0 }
    }

    /// In how many ways they are grouped.
    pub(crate) fn ways(&self) -> usize {
        self.ways
    }

    /// From here on accesses are of this burst.
    pub(crate) fn begin(&mut self, burst: &Burst, number: usize) {
        self.units.begin(burst);
        self.burst = number;
    }

    /// Gives what a site touched unit by unit: the unit, its row in each way, how many accesses came before, and the touch.
    pub(crate) fn divide(
        &mut self,
        site: SiteIndex,
        touch: Touch,
        mut give: impl FnMut(UnitIndex, &[Option<usize>], u64, Touch),
    ) {
        let (start, stride, count, bytes) = match touch {
            Touch::Run { start, stride, count, bytes } => (start, stride, count, bytes),
            Touch::AtLeast { start, .. } => {
                let unit = self.units.at(site, RemoteAddr(start)).0;
                return give(unit, self.rows_of(unit), 0, touch);
            }
            // Nothing lies at address 0: the object is not known either.
            Touch::Unknown { .. } => {
                let unit = self.units.at(site, RemoteAddr(0)).0;
                return give(unit, self.rows_of(unit), 0, touch);
            }
        };
        let (mut at, mut done, mut cuts) = (RemoteAddr(start), 0, 0);
        while done < count {
            let (unit, extent) = self.units.at(site, at);
            let left = count - done;
            let within = if cuts < MOST_CUTS { steps_within(extent, at, stride) } else { left };
            let count = within.min(left);
            give(unit, self.rows_of(unit), done, Touch::Run { start: at.0, stride, count, bytes });
            at = RemoteAddr(at.0.wrapping_add(stride.cast_unsigned().wrapping_mul(count)));
            (done, cuts) = (done + count, cuts + 1);
        }
    }

    /// The rows of a unit, as far as it is asked for.
    fn rows_of(&mut self, unit: UnitIndex) -> &[Option<usize>] {
        let first = unit.index() * self.ways;
        while self.row_of_unit.len() < first + self.ways {
            let new = UnitIndex::new(self.row_of_unit.len() / self.ways);
            let (site, part) = (self.units.site_of(new), self.units.part_of(new));
            let came_up = (self.burst, new.index());
            let rows = self.new_unit.iter_mut().map(|row_of| row_of(site, part, came_up));
            self.row_of_unit.extend(rows);
        }
        &self.row_of_unit[first..first + self.ways]
    }
}

impl Objects {
    /// The part of an object at an address of a process, and the addresses around it for which the same is true.
    pub(crate) fn part(
        &self,
        pid: Pid,
        address: RemoteAddr,
        window: Window,
        pieces: Pieces,
    ) -> (Part, Extent) {
        let (located, extent) = self.locate(pid, address, window);
        let (object, all) = (self.get(located.object), Part::whole(located.object));
        if pieces == Pieces::Nodes {
            let start = address.0 / BASE_PAGE * BASE_PAGE;
            let page = Extent { start: RemoteAddr(start), last: RemoteAddr(start + BASE_PAGE - 1) };
            let node = self.pages.node(pid, address.0, window.start).map(NodeId);
            return (Part { node, ..all }, extent.and(page));
        }
        if pieces == Pieces::Whole || !object.kind.is_named() {
            return (all, extent);
        }
        let least = if pieces == Pieces::Lines { u64::from(x86::LINE_BYTES) } else { 1 };
        let bytes = object.largest.0.div_ceil(MOST_PIECES).max(least);
        let bytes = bytes.checked_next_power_of_two().unwrap_or(1 << 63);
        let offset = (address.0 - located.start.0) / bytes * bytes;
        let start = located.start.0.saturating_add(offset);
        let piece =
            Extent { start: RemoteAddr(start), last: RemoteAddr(start.saturating_add(bytes - 1)) };
        let whole = Piece { offset: Bytes(offset), bytes: Bytes(bytes) };
        (Part { piece: Some(whole), ..all }, extent.and(piece))
    }
}

/// How many steps of a run begin in an extent; at least 1, for its first does.
pub(crate) fn steps_within(extent: Extent, start: RemoteAddr, stride: i64) -> u64 {
    let room = if stride < 0 { start.0 - extent.start.0 } else { extent.last.0 - start.0 };
    match stride.unsigned_abs() {
        0 => u64::MAX,
        step => (room / step).saturating_add(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_leaves_an_extent_with_the_step_that_begins_behind_it() {
        let extent = Extent { start: RemoteAddr(100), last: RemoteAddr(163) };
        let steps = |start, stride| steps_within(extent, RemoteAddr(start), stride);
        assert_eq!((steps(100, 8), steps(163, 8), steps(100, 64), steps(100, 63)), (8, 1, 1, 2));
        assert_eq!((steps(163, -8), steps(100, -8), steps(140, 0)), (8, 1, u64::MAX));
        assert_eq!(steps_within(Extent::ALL, RemoteAddr(0), 1), u64::MAX);
    }
}
