//! From facts to objects: which ranges there are, and what each is called.
//!
//! What for: [`Objects::new`]. What not: look-ups (`index`), and allocation sites (`sites`).
//!
//! Assumption: ids, times and ranges are allegations: a release of an unknown block is ignored, a range that overflows is
//! cut off.

use std::collections::{HashMap, HashSet};

use base::{AllocationId, Bytes, Nanos, Pid, RemoteAddr, ThreadId, Tid};
use facts::{Recording, Region, RegionEnd, RegionKind, Target, ThreadEventKind};

use super::sites::{asking_place, is_by_malloc, is_thread_local, name_of, python_function};
use super::{Entry, Layer, Object, ObjectId, ObjectKind, Objects, Space, weight};
use crate::findings::figures::nodes::PageSnapshots;
use crate::profile::Profile;
use crate::stack::{LocationId, NodeIndex};

const EVER: Nanos = Nanos(u64::MAX);
/// Allocators give smaller blocks no mapping of their own (DEFAULT_MMAP_THRESHOLD_MIN of glibc's malloc).
const LEAST_MAPPED: Bytes = Bytes(128 << 10);

/// What makes two ranges one object.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Identity {
    Site(ObjectKind, LocationId),
    Name(ObjectKind, String),
}

/// Ranges of one process, by layer.
#[derive(Default)]
struct Ranges {
    heap: Vec<Entry>,
    globals: Vec<Entry>,
    regions: Vec<Entry>,
}

struct Builder<'a> {
    profile: &'a Profile<'a>,
    all: Vec<Object>,
    known: HashMap<Identity, ObjectId>,
    ranges: HashMap<Pid, Ranges>,
    /// Processes of which heap blocks were recorded or counted.
    with_agent: HashSet<Pid>,
    /// Mappings from before the attach in which the allocator found room for later blocks.
    heaps: HashSet<(Pid, RemoteAddr)>,
}

pub(super) fn objects(profile: &Profile<'_>) -> Objects {
    let recording = profile.recording;
    let mut with_agent: HashSet<Pid> = recording.allocations.iter().map(|one| one.pid).collect();
    with_agent.extend(recording.heap_totals.iter().map(|total| total.pid));
    let mut builder = Builder {
        profile,
        all: Vec::new(),
        known: HashMap::new(),
        ranges: HashMap::new(),
        with_agent,
        heaps: older_heaps(recording),
    };
    builder.object(Identity::Name(ObjectKind::Unknown, String::new()), || {
        "unknown addresses".to_owned()
    });
    builder.add_ends();
    builder.add_blocks();
    builder.add_globals();
    builder.add_regions();
    let Builder { all, ranges, .. } = builder;
    let layers = |ranges: Ranges| Space {
        heap: Layer::new(ranges.heap),
        globals: Layer::new(ranges.globals),
        regions: Layer::new(ranges.regions),
    };
    let spaces = ranges.into_iter().map(|(pid, own)| (pid, layers(own))).collect();
    Objects { all, spaces, pages: PageSnapshots::new(&recording.pages) }
}

impl Builder<'_> {
    /// What took ranges away: of those at one time it comes first, as the layers keep the order in which they are given.
    fn add_ends(&mut self) {
        let recording = self.profile.recording;
        if recording.allocations.is_empty()
            && recording.globals.is_empty()
            && recording.regions.is_empty()
        {
            return;
        }
        let hole =
            |start, end, from| Entry { start, end, from, until: EVER, what: None, weight: 1.0 };
        let executed = |event: &&facts::ThreadEvent| event.kind == ThreadEventKind::Exec;
        for event in recording.thread_events.iter().filter(executed) {
            let all = hole(RemoteAddr(0), RemoteAddr(u64::MAX), event.time);
            let ranges = self.ranges.entry(event.pid).or_default();
            ranges.heap.push(all);
            ranges.globals.push(all);
            ranges.regions.push(all);
        }
        for end in &recording.region_ends {
            let behind = RemoteAddr(end.start.0.saturating_add(end.bytes.0));
            let ranges = self.ranges.entry(end.pid).or_default();
            ranges.regions.push(hole(end.start, behind, end.time));
        }
    }

    fn add_blocks(&mut self) {
        let recording = self.profile.recording;
        let releases: HashMap<AllocationId, Nanos> =
            recording.releases.iter().map(|release| (release.allocation, release.time)).collect();
        for block in &recording.allocations {
            let stack = block.stack.and_then(|id| self.profile.stacks.find(id));
            let id = self.site(ObjectKind::Heap, stack);
            let until = releases.get(&block.id).copied().unwrap_or(EVER);
            let start = block.address;
            self.grow(id, weight(block), block.size, stack, None);
            let ranges = self.ranges.entry(block.pid).or_default();
            let entry = entry(start, block.size, (block.time, until), id);
            ranges.heap.push(Entry { weight: weight(block), ..entry });
        }
    }

    fn add_globals(&mut self) {
        for global in &self.profile.recording.globals {
            let identity = Identity::Name(ObjectKind::Global, global.name.clone());
            let id = self.object(identity, || global.name.clone());
            self.grow(id, 1.0, global.bytes, None, None);
            let ranges = self.ranges.entry(global.pid).or_default();
            ranges.globals.push(entry(global.start, global.bytes, (global.time, EVER), id));
        }
    }

    fn add_regions(&mut self) {
        let names = self.thread_names();
        for region in &self.profile.recording.regions {
            let stack = region.stack.and_then(|id| self.profile.stacks.find(id));
            let id = self.region(region, stack, &names);
            self.grow(id, 1.0, region.bytes, stack, region.page);
            let ranges = self.ranges.entry(region.pid).or_default();
            ranges.regions.push(entry(region.start, region.bytes, (region.time, EVER), id));
        }
    }

    fn thread_names(&self) -> HashMap<ThreadId, String> {
        let threads = self.profile.threads.all().iter();
        threads.map(|thread| (ThreadId::new(thread.pid, thread.tid), thread.name.clone())).collect()
    }

    fn region(
        &mut self,
        region: &Region,
        stack: Option<NodeIndex>,
        names: &HashMap<ThreadId, String>,
    ) -> ObjectId {
        let by_malloc = stack.is_some_and(|stack| is_by_malloc(&self.profile.stacks, stack));
        let (kind, name) = match region.kind {
            RegionKind::Stack => {
                let tid = region.tid.unwrap_or(Tid(region.pid.0));
                let name =
                    names.get(&ThreadId::new(region.pid, tid)).filter(|name| !name.is_empty());
                let name = name.map_or_else(|| tid.to_string(), Clone::clone);
                (ObjectKind::Stack, format!("stack of {name}"))
            }
            RegionKind::Break if stack.is_none() || by_malloc => self.small(region.pid),
            RegionKind::Anonymous | RegionKind::Huge if by_malloc => self.small(region.pid),
            _ if !region.name.is_empty() => (ObjectKind::Mapping, plain(&region.name)),
            _ if stack.is_some() => return self.site(ObjectKind::Mapping, stack),
            _ if is_attached(self.profile.recording) && region.time == Nanos(0) => {
                match self.heaps.contains(&(region.pid, region.start)) {
                    true => self.small(region.pid),
                    false => (ObjectKind::Unseen, "memory mapped before the attach".to_owned()),
                }
            }
            _ => (ObjectKind::Unseen, "mapped memory (caller not recorded)".to_owned()),
        };
        self.object(Identity::Name(kind, name.clone()), || name)
    }

    /// Heap memory outside of recorded blocks.
    fn small(&self, pid: Pid) -> (ObjectKind, String) {
        let name = match (self.with_agent.contains(&pid), is_attached(self.profile.recording)) {
            (true, true) => "heap blocks from before the attach, or small (not recorded)",
            (true, false) => "small heap blocks (not recorded)",
            (false, _) => "heap blocks (none were recorded)",
        };
        (ObjectKind::SmallBlocks, name.to_owned())
    }

    /// What one place asked for.
    fn site(&mut self, kind: ObjectKind, stack: Option<NodeIndex>) -> ObjectId {
        let stacks = &self.profile.stacks;
        let Some(stack) = stack else {
            let name = "heap blocks (caller not recorded)".to_owned();
            return self.object(Identity::Name(kind, name.clone()), || name);
        };
        if is_thread_local(stacks, stack) {
            let name = "thread-local storage".to_owned();
            return self.object(Identity::Name(kind, name.clone()), || name);
        }
        let place = asking_place(stacks, Some(stack));
        let variable = stacks.variable_of(place);
        // Of Python's own memory the function says nothing: whoever needs a small object first gets a new arena for all.
        let python = python_function(stacks, stack).filter(|_| kind == ObjectKind::Heap);
        if let Some(python) = python.filter(|python| *python != place) {
            let (inner, outer) = (name_of(stacks, place, variable), name_of(stacks, python, None));
            let name = format!("{inner} in {outer}");
            return self.object(Identity::Name(kind, name.clone()), || name);
        }
        self.object(Identity::Site(kind, place), || name_of(stacks, place, variable))
    }

    fn object(&mut self, identity: Identity, name: impl FnOnce() -> String) -> ObjectId {
        let kind = match &identity {
            Identity::Site(kind, _) | Identity::Name(kind, _) => *kind,
        };
        let all = &mut self.all;
        *self.known.entry(identity).or_insert_with(|| {
            all.push(Object {
                kind,
                name: name(),
                ranges: 0,
                blocks: 0.0,
                bytes: 0.0,
                largest: Bytes(0),
                smallest: Bytes(u64::MAX),
                stack: None,
                page: None,
            });
            ObjectId::new(all.len() - 1)
        })
    }

    fn grow(
        &mut self,
        id: ObjectId,
        weight: f64,
        size: Bytes,
        stack: Option<NodeIndex>,
        page: Option<Bytes>,
    ) {
        let object = &mut self.all[id.index()];
        object.page = page.filter(|_| object.ranges == 0 || object.page == page);
        object.ranges += 1;
        object.blocks += weight;
        object.bytes += weight * size.0 as f64;
        if size > object.largest || object.stack.is_none() {
            object.stack = stack;
        }
        object.largest = object.largest.max(size);
        object.smallest = object.smallest.min(size);
    }
}

/// A mapping as people know it.
fn plain(name: &str) -> String {
    match name {
        "[vdso]" => "vDSO (clocks without system calls)".to_owned(),
        _ if name.starts_with("[vvar") => "vDSO data (clocks without system calls)".to_owned(),
        _ => name.to_owned(),
    }
}

/// Whether the program ran before it was watched.
pub(super) fn is_attached(recording: &Recording) -> bool {
    matches!(recording.run.target, Some(Target::Attached { .. }))
}

/// Where the mappings of the allocator from before the attach begin: those in which it found room for a block later.
///
/// Larger blocks do not count: they may be mappings of their own, in the place of something that was unmapped unseen.
/// Assumption: what the kernel shows as one mapping was mapped for one purpose. It joins neighbours that are alike; where the
/// program mapped memory directly next to the allocator's, that goes by the allocator's name.
fn older_heaps(recording: &Recording) -> HashSet<(Pid, RemoteAddr)> {
    if !is_attached(recording) {
        return HashSet::new();
    }
    let in_mapping = |region: &&Region| {
        let is_plain = region.kind == RegionKind::Anonymous && region.stack.is_none();
        is_plain && region.name.is_empty() && region.time == Nanos(0)
    };
    let mut blocks: Vec<(Pid, RemoteAddr, Nanos)> = recording
        .allocations
        .iter()
        .filter(|block| block.size < LEAST_MAPPED)
        .map(|block| (block.pid, block.address, block.time))
        .collect();
    blocks.sort_unstable();
    let holds_block = |region: &&Region| {
        let Region { pid, start, bytes, .. } = **region;
        let end = RemoteAddr(start.0.saturating_add(bytes.0));
        let first = blocks.partition_point(|block| (block.0, block.1) < (pid, start));
        let behind = blocks.partition_point(|block| (block.0, block.1) < (pid, end));
        let Some((_, _, time)) = blocks[first..behind].iter().min_by_key(|block| block.2) else {
            return false;
        };
        let overlaps = |gone: &RegionEnd| {
            gone.pid == pid
                && gone.start < end
                && start.0 < gone.start.0.saturating_add(gone.bytes.0)
        };
        !recording.region_ends.iter().any(|gone| overlaps(gone) && gone.time <= *time)
    };
    let regions = recording.regions.iter().filter(in_mapping).filter(holds_block);
    regions.map(|region| (region.pid, region.start)).collect()
}

fn entry(start: RemoteAddr, size: Bytes, (from, until): (Nanos, Nanos), id: ObjectId) -> Entry {
    let end = RemoteAddr(start.0.saturating_add(size.0));
    Entry { start, end, from, until, what: Some(id), weight: 1.0 }
}
