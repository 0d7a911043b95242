//! Look-ups against a plain reference: a program that allocates, frees, maps and unmaps at random and reuses addresses.

use std::collections::BTreeMap;

use base::{AllocationId, Bytes, FileOffset, Nanos, Pid, RemoteAddr, Tid};
use facts::{
    Allocation, AllocationCall, Global, Recording, Region, RegionEnd, RegionKind, Release, Target,
    ThreadEvent, ThreadEventKind,
};

use super::{ObjectKind, Objects, Window};
use crate::profile::Profile;

const PID: Pid = Pid(1);
const PAGE: u64 = 64;
const PAGES: u64 = 24;

/// Marsaglia's xorshift: the same numbers in each run.
pub(super) struct Numbers(pub(super) u64);

impl Numbers {
    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// What is where, byte by byte; and the recording of how it came to be.
#[derive(Default)]
struct Program {
    recording: Recording,
    time: u64,
    /// Names of mappings by page.
    mapped: BTreeMap<u64, String>,
    /// Live blocks: first byte, length, id.
    blocks: Vec<(u64, u64, AllocationId)>,
    /// First byte and length.
    variable: Option<(u64, u64)>,
}

impl Program {
    fn region(&mut self, page: u64, pages: u64) {
        let name = format!("/map/{}", self.recording.regions.len());
        self.recording.regions.push(Region {
            time: Nanos(self.time),
            pid: PID,
            tid: None,
            start: RemoteAddr(page * PAGE),
            bytes: Bytes(pages * PAGE),
            kind: RegionKind::File,
            name: name.clone(),
            file_offset: FileOffset(0),
            page: None,
            stack: None,
        });
        (page..page + pages).for_each(|page| drop(self.mapped.insert(page, name.clone())));
    }

    fn unmap(&mut self, page: u64, pages: u64) {
        self.recording.region_ends.push(RegionEnd {
            time: Nanos(self.time),
            pid: PID,
            start: RemoteAddr(page * PAGE),
            bytes: Bytes(pages * PAGE),
        });
        (page..page + pages).for_each(|page| drop(self.mapped.remove(&page)));
    }

    fn allocate(&mut self, start: u64, bytes: u64) {
        if self.blocks.iter().any(|(at, length, _)| start < at + length && *at < start + bytes) {
            return;
        }
        let id = AllocationId(self.recording.allocations.len() as u32);
        self.recording.allocations.push(Allocation {
            id,
            time: Nanos(self.time),
            pid: PID,
            tid: Tid(1),
            address: RemoteAddr(start),
            size: Bytes(bytes),
            call: AllocationCall::Malloc,
            stack: None,
            sample_every: Bytes(0),
        });
        self.blocks.push((start, bytes, id));
    }

    fn free(&mut self, which: u64) {
        if self.blocks.is_empty() {
            return;
        }
        let (_, _, allocation) = self.blocks.remove(which as usize % self.blocks.len());
        let time = Nanos(self.time);
        self.recording.releases.push(Release { time, allocation, tid: Tid(1), stack: None });
    }

    fn execute(&mut self) {
        self.recording.thread_events.push(ThreadEvent {
            time: Nanos(self.time),
            pid: PID,
            tid: Tid(1),
            kind: ThreadEventKind::Exec,
            name: "next".into(),
        });
        self.mapped.clear();
        self.blocks.clear();
        self.variable = None;
    }

    fn variable(&mut self, start: u64, bytes: u64) {
        if self.variable.is_some() {
            return;
        }
        self.recording.globals.push(Global {
            time: Nanos(self.time),
            pid: PID,
            module: base::ModuleId(0),
            start: RemoteAddr(start),
            bytes: Bytes(bytes),
            name: "variable".into(),
        });
        self.variable = Some((start, bytes));
    }

    fn step(&mut self, numbers: &mut Numbers) {
        self.time += 10;
        let page = numbers.below(PAGES);
        let pages = 1 + numbers.below(PAGES - page).min(5);
        let start = numbers.below(PAGE * PAGES);
        match numbers.below(40) {
            0 => self.execute(),
            1 => self.variable(start, 1 + numbers.below(99)),
            2..8 => self.region(page, pages),
            8..12 => self.unmap(page, pages),
            12..28 => self.allocate(start, 1 + numbers.below(60)),
            _ => self.free(start),
        }
    }

    /// The kind and name of what is at an address now.
    fn at(&self, address: u64) -> (ObjectKind, String) {
        let holds = |start: u64, bytes: u64| start <= address && address < start + bytes;
        if self.blocks.iter().any(|(start, bytes, _)| holds(*start, *bytes)) {
            return (ObjectKind::Heap, "heap blocks (caller not recorded)".into());
        }
        if self.variable.is_some_and(|(start, bytes)| holds(start, bytes)) {
            return (ObjectKind::Global, "variable".into());
        }
        match self.mapped.get(&(address / PAGE)) {
            Some(name) => (ObjectKind::Mapping, name.clone()),
            None => (ObjectKind::Unknown, "unknown addresses".into()),
        }
    }
}

#[test]
fn what_is_at_an_address_is_what_a_plain_reference_says() {
    for seed in 1..=12 {
        let mut numbers = Numbers(seed * 0x9e37_79b9);
        let mut program = Program::default();
        let mut expected = Vec::new();
        for _ in 0..250 {
            program.step(&mut numbers);
            let address = numbers.below(PAGE * (PAGES + 2));
            expected.push((program.time + 5, address, program.at(address)));
        }
        let profile = Profile::new(&program.recording);
        let objects = Objects::new(&profile);
        for (time, address, what) in expected {
            let window = Window { start: Nanos(time), end: Nanos(time + 1) };
            let (located, extent) = objects.locate(PID, RemoteAddr(address), window);
            let object = objects.get(located.object);
            assert_eq!((object.kind, object.name.clone()), what, "{seed}: {address} at {time}");
            assert!(located.start.0 <= address && extent.has(RemoteAddr(address)));
            let other = objects.locate(Pid(2), RemoteAddr(address), window).0;
            assert_eq!(other.object, Objects::unknown());
        }
    }
}

/// Memory of a process that ran before is its heap's where a block was found later, and nothing else was there before.
#[test]
fn older_heaps_are_known_by_later_blocks() {
    let mut program = Program::default();
    program.recording.run.target = Some(Target::Attached { pid: PID.0 });
    for page in [0, 4, 8, 12] {
        program.region(page, 2);
    }
    for region in &mut program.recording.regions {
        (region.kind, region.name) = (RegionKind::Anonymous, String::new());
    }
    program.time = 10;
    program.allocate(10, 20);
    program.unmap(8, 2);
    program.time = 20;
    program.allocate(8 * PAGE, 20);
    program.region(8, 2);
    program.recording.allocations.push(Allocation {
        id: AllocationId(2),
        size: Bytes(1 << 20),
        address: RemoteAddr(12 * PAGE),
        ..program.recording.allocations[0]
    });
    let profile = Profile::new(&program.recording);
    let objects = Objects::new(&profile);
    let kind = |page: u64| {
        let (object, _) = objects.at(PID, RemoteAddr(page * PAGE + PAGE), Nanos(5));
        objects.get(object).kind
    };
    let (heap, other) = (ObjectKind::SmallBlocks, ObjectKind::Unseen);
    // With a block; without; after something else; with one that may be a mapping of its own.
    assert_eq!([0, 4, 8, 12].map(kind), [heap, other, other, other]);
}
