//! Memory objects: what the addresses that a program uses belong to.
//!
//! What for: an address of a process at a time leads to a heap block, variable, stack or mapping ([`Objects::locate`]). All blocks
//! of one allocation site are one object, as are all stacks of threads of one name. Figures of objects are a grouping of the
//! other estimates (`units`), not a second estimate.
//! What not: figures. `table` joins them.
//!
//! The choice at an address: a recorded heap block; else a variable of a module; else the region. In regions that `malloc` fills,
//! memory without a record is a small block: a class of its own, as are memory whose caller was not recorded, and addresses that
//! no record covers.
//!
//! Assumptions: an access has the time of its burst, some milliseconds. If a block is freed and its address reused within these,
//! the later block, if recorded, gets the accesses of both. Ranges of a process end when it executes another program.

mod build;
mod drawn;
mod first_touch;
mod grouping;
mod index;
mod mapped;
mod near;
mod pages;
mod sites;
mod table;
#[cfg(test)]
mod tests;
mod units;

use std::collections::HashMap;

use base::{Bytes, Nanos, Pid, RemoteAddr};
use facts::Allocation;

use self::index::{Entry, Layer};
use crate::findings::figures::nodes::PageSnapshots;
use crate::profile::Profile;
use crate::stack::{NodeIndex, index};

pub use self::drawn::estimated_shares;
pub use self::first_touch::FirstTouch;
pub use self::grouping::Grouping;
pub(crate) use self::index::{Extent, Window};
pub(crate) use self::near::NearObjects;
pub use self::pages::{HUGE_PAGE, ObjectPages};
pub(crate) use self::sites::asking_place;
pub use self::table::{ObjectRow, ObjectTable, object_table};
pub(crate) use self::units::{
    First, MOST_CUTS, NewUnit, Part, UnitIndex, UnitRows, Units, steps_within,
};
pub use self::units::{Piece, Pieces};

index!(/// An object of [`Objects`].
    ObjectId);

/// Why there are none, and what would help.
pub const NOT_COLLECTED: &str = "this result has no memory objects: collect it again with `fathom collect memory-access`, without `-k analyze-mem-objects=false`";

/// What an object is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ObjectKind {
    /// Heap blocks that one place asked for.
    Heap,
    /// A variable of a module.
    Global,
    /// Stacks of the threads of one name.
    Stack,
    /// A mapping: pages of a file, shared memory, or what one place asked the kernel for.
    Mapping,
    /// Heap memory outside of all recorded blocks.
    SmallBlocks,
    /// Memory whose caller was not recorded.
    Unseen,
    /// Addresses that lie in nothing that was recorded.
    Unknown,
}

impl ObjectKind {
    /// In a word or two.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            ObjectKind::Heap => "heap",
            ObjectKind::Global => "global",
            ObjectKind::Stack => "stack",
            ObjectKind::Mapping => "mapping",
            ObjectKind::SmallBlocks => "small blocks",
            ObjectKind::Unseen => "unseen",
            ObjectKind::Unknown => "unknown",
        }
    }

    /// Whether it may be many values of one type.
    #[must_use]
    pub fn has_elements(self) -> bool {
        matches!(self, ObjectKind::Heap | ObjectKind::Global | ObjectKind::Mapping)
    }

    /// Whether it is a thing with a name, not a class of what is left over.
    #[must_use]
    pub fn is_named(self) -> bool {
        !matches!(self, ObjectKind::SmallBlocks | ObjectKind::Unseen | ObjectKind::Unknown)
    }
}

/// An object.
#[derive(Clone, PartialEq, Debug)]
pub struct Object {
    /// What it is.
    pub kind: ObjectKind,
    /// `build_tree tree.c:42` for blocks, else the variable's name, the file's path, `stack of NAME`. The same in each run
    /// of the same program.
    pub name: String,
    /// Ranges of it that were recorded: blocks, stacks, mappings.
    pub ranges: u64,
    /// Blocks that these represent: more than [`Object::ranges`] when some were drawn at random.
    pub blocks: f64,
    /// Bytes in those, as asked for.
    pub bytes: f64,
    /// Bytes of the largest range.
    pub largest: Bytes,
    /// Bytes of the smallest range.
    pub smallest: Bytes,
    /// The stack that allocated its largest range.
    pub stack: Option<NodeIndex>,
    /// Size of its pages, where that is fixed and the same for all its ranges.
    pub page: Option<Bytes>,
}

/// What is at an address.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Located {
    /// The object.
    pub(crate) object: ObjectId,
    /// Where its block, variable or region begins; the address itself when it lies in nothing.
    pub(crate) start: RemoteAddr,
    /// How many blocks it represents: more than 1 where it was drawn at random.
    pub(crate) weight: f64,
}

/// The address space of a process.
#[derive(Debug, Default)]
struct Space {
    heap: Layer,
    globals: Layer,
    regions: Layer,
}

/// All objects of a recording.
pub struct Objects {
    all: Vec<Object>,
    spaces: HashMap<Pid, Space>,
    /// The NUMA nodes of pages.
    pages: PageSnapshots,
}

impl Objects {
    /// The object of addresses that lie in nothing.
    #[must_use]
    pub fn unknown() -> ObjectId {
        ObjectId::new(0)
    }

    /// Sorts all recorded ranges. O(n log n) in their number.
    #[must_use]
    pub fn new(profile: &Profile<'_>) -> Objects {
        build::objects(profile)
    }

    /// Whether any range was recorded.
    #[must_use]
    pub fn any(&self) -> bool {
        !self.spaces.is_empty()
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> &[Object] {
        &self.all
    }

    /// One of them.
    #[must_use]
    pub fn get(&self, id: ObjectId) -> &Object {
        &self.all[id.index()]
    }

    /// The object at an address of a process at a time, and how far from the start of its block, variable or region.
    #[must_use]
    pub fn at(&self, pid: Pid, address: RemoteAddr, time: Nanos) -> (ObjectId, Bytes) {
        let (located, _) = self.locate(pid, address, Window { start: time, end: time });
        (located.object, Bytes(address.0 - located.start.0))
    }

    /// What was at an address of a process in a stretch of time, and the addresses around it for which the same is true.
    pub(crate) fn locate(
        &self,
        pid: Pid,
        address: RemoteAddr,
        window: Window,
    ) -> (Located, Extent) {
        let unknown = Located { object: Objects::unknown(), start: address, weight: 1.0 };
        let Some(space) = self.spaces.get(&pid) else { return (unknown, Extent::ALL) };
        let mut extent = Extent::ALL;
        for layer in [&space.heap, &space.globals, &space.regions] {
            let (entry, around) = layer.find(address, window);
            extent = extent.and(around);
            if let Some((what, entry)) = entry.and_then(|entry| Some((entry.what?, entry))) {
                let Entry { start, weight, .. } = *entry;
                return (Located { object: what, start, weight }, extent);
            }
        }
        (unknown, extent)
    }
}

/// How many blocks a recorded one represents.
pub(crate) fn weight(block: &Allocation) -> f64 {
    if block.sample_every == Bytes(0) {
        return 1.0;
    }
    let drawn = -(-(block.size.0 as f64) / block.sample_every.0 as f64).exp_m1();
    // A block of 0 bytes is never drawn; a file may say otherwise.
    if drawn > 0.0 { 1.0 / drawn } else { 1.0 }
}
