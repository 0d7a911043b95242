//! The arithmetic of exact mode: follows every block from its allocation to its free, and sums per allocation site.
//!
//! What for: events of all threads, in order of time, become sums per *site* (process, node of the stack, call), per
//! pair of sites (allocation, free), and per site and class of lifetimes. The sums stay small however many blocks
//! there are. What not: reading events (`merge`), the meaning of nodes (`exact`). There is no clock here: times are
//! the events' own stamps.
//!
//! Two events of one address may come in the wrong order when two threads use it within some hundred cycles: the
//! processor may read its time-stamp counter before earlier loads are done (SDM 2B, RDTSC). So a free without block
//! waits for its allocation ([`Aggregator::early`]), and a block at the address of a living one displaces that until
//! its free comes ([`Aggregator::displaced`]). This is right because the allocator frees the earlier block of an
//! address before it hands out the later one.

#[cfg(test)]
mod tests;

use base::{Bytes, IndexMap, Tid};

use super::blocks::{Blocks, Live};
use super::parts::{Part, Parts};
use sys::heap;
use sys::heap_exact as layout;

type Map<V> = IndexMap<u64, V>;

/// The index of a site in the aggregator.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SiteId(pub u32);

/// Number of calls that distinguish sites: four of the C library, those of libpmemobj, and the free.
const CALLS: usize = 6;
/// The number for all calls of libpmemobj.
pub const CALL_PERSISTENT: u8 = 4;
/// The number for frees.
pub const CALL_FREE: u8 = 5;
/// Most sites of copied stacks; further copied stacks share one site.
const MOST_COPIED: usize = 1 << 20;
/// Most frees that wait for their allocation; beyond, all of them are dropped.
const MOST_EARLY: usize = 4096;

/// An event and its origin.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// The stamp: ticks or nanoseconds.
    pub time: u64,
    /// The process, by its entry in the table.
    pub process: u32,
    /// Number of the slot.
    pub slot: u32,
    /// The thread.
    pub tid: Tid,
    /// The block.
    pub address: u64,
    /// Bytes asked for.
    pub size: u64,
    /// One of `heap_exact::EVENT_*`.
    pub kind: u32,
    /// As in `heap::CALL_*`.
    pub call: u8,
    /// The node, or [`layout::NO_NODE`], which makes a new site.
    pub node: u32,
}

/// Sums per site, named as in `facts::HeapStack`. `live` and `at_peak` are current; the others count since the last
/// [`Aggregator::take`].
#[derive(Clone, Copy, Default, Debug)]
pub struct Sums {
    pub allocations: u64,
    pub allocated: u64,
    pub frees: u64,
    pub freed: u64,
    pub temporary: u64,
    pub lifetime: u64,
    pub largest: u64,
    pub live: u64,
    pub at_peak: u64,
}

impl Sums {
    /// Adds the sums that are differences.
    pub fn add(&mut self, other: &Sums) {
        let plus = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        plus(&mut self.allocations, other.allocations);
        plus(&mut self.allocated, other.allocated);
        plus(&mut self.frees, other.frees);
        plus(&mut self.freed, other.freed);
        plus(&mut self.temporary, other.temporary);
        plus(&mut self.lifetime, other.lifetime);
    }
}

/// A call chain that allocates or frees blocks.
#[derive(Clone, Copy, Debug)]
pub struct Site {
    /// The process, by its entry in the table.
    pub process: u32,
    /// Its node; [`layout::NO_NODE`] for a copied stack.
    pub node: u32,
    /// 0 to 3 as in `heap::CALL_*`, [`CALL_PERSISTENT`] or [`CALL_FREE`].
    pub call: u8,
    sums: Sums,
    /// The peak that `at_peak` belongs to.
    version: u32,
    changed: bool,
}

impl Site {
    /// Keeps what was live at the peak of its process, if there was one since the last change. Returns whether there
    /// was.
    fn keep_share(&mut self, process: &Process) -> bool {
        let peaked = self.version != process.version;
        if peaked {
            (self.sums.at_peak, self.version) = (self.sums.live, process.version);
        }
        peaked
    }
}

#[derive(Clone, Copy)]
struct EarlyFree {
    event: Event,
    site: SiteId,
}

#[derive(Default)]
struct Process {
    /// The site's index plus 1, by node and call.
    sites: Vec<u32>,
    live: u64,
    peak: u64,
    /// Number of peaks so far.
    version: u32,
}

/// A block that has a record of its own, or its end.
#[derive(Clone, Copy, Debug)]
pub enum Recorded {
    /// It was allocated.
    Allocated {
        /// Numbered from 0.
        number: u32,
        /// The event that the agent wrote.
        event: Event,
        /// The site that allocated it.
        site: SiteId,
    },
    /// It was freed.
    Freed {
        /// As in the allocation.
        number: u32,
        /// The stamp.
        time: u64,
        /// The thread that freed it.
        tid: Tid,
        /// The site that freed it.
        site: SiteId,
    },
}

/// What changed since the last call.
#[derive(Default)]
pub struct Changes {
    /// Sums of sites, of which `at_peak` alone may have changed.
    pub sites: Vec<(SiteId, Sums)>,
    /// Blocks by the site that freed them.
    pub freed_by: Vec<Part>,
    /// Blocks by lifetime: see [`lifetime_class`].
    pub lived: Vec<Part>,
}

/// The class of a lifetime: its number of binary digits in nanoseconds. The lowest bit says whether the block was
/// temporary.
fn lifetime_part(nanos: u64, temporary: bool) -> u32 {
    (u64::BITS - nanos.leading_zeros()) << 1 | u32::from(temporary)
}

/// The longest lifetime of the class of such a part, in nanoseconds, and whether its blocks were temporary.
pub fn lifetime_class(part: u32) -> (u64, bool) {
    (u64::MAX.checked_shr(u64::BITS - (part >> 1)).unwrap_or(0), part & 1 == 1)
}

/// The state of exact mode.
#[derive(Default)]
pub struct Aggregator {
    live: Blocks,
    processes: Vec<Process>,
    sites: Vec<Site>,
    freed_by: Parts,
    lived: Parts,
    /// Nanoseconds in 2^32 units of a stamp.
    scale: u64,
    early: Map<EarlyFree>,
    displaced: Map<Vec<Live>>,
    /// For each slot, the block that was allocated last.
    last: Vec<u64>,
    records: u32,
    /// Sites of copied stacks so far.
    copied: usize,
    /// Recorded blocks and their ends since the last call.
    pub recorded: Vec<Recorded>,
    /// Number of sites that [`Aggregator::new_sites`] has returned.
    reported: usize,
}

/// One number for an address of a process; addresses have 47 bits here.
fn key(process: u32, address: u64) -> u64 {
    address ^ u64::from(process) << 48
}

impl Aggregator {
    /// Takes the next event; returns its site.
    pub fn add(&mut self, event: &Event) -> SiteId {
        let freeing = event.kind == layout::EVENT_FREED;
        let call = match u32::from(event.call) {
            _ if freeing => CALL_FREE,
            heap::CALL_PERSISTENT => CALL_PERSISTENT,
            _ => event.call & 3,
        };
        let site = self.site(event.process, event.node, call);
        if freeing {
            self.free(event, site);
        } else {
            self.allocate(event, site);
        }
        site
    }

    /// Sets the length of `2^32` units of a stamp, in nanoseconds; lifetimes are classified by it.
    pub fn set_scale(&mut self, nanos: u64) {
        self.scale = nanos;
    }

    /// The sites that are new since the last call.
    pub fn new_sites(&mut self) -> &[Site] {
        let from = std::mem::replace(&mut self.reported, self.sites.len());
        self.sites.get(from..).unwrap_or(&[])
    }

    /// Most bytes that were live at once, by entry of the process.
    pub fn peak(&self, process: usize) -> Option<Bytes> {
        self.processes.get(process).map(|process| Bytes(process.peak))
    }

    /// What changed since the last time.
    pub fn take(&mut self) -> Changes {
        let mut changes = Changes::default();
        for (number, site) in (0..).zip(&mut self.sites) {
            let peaked = site.keep_share(&self.processes[site.process as usize]);
            if std::mem::take(&mut site.changed) || peaked {
                changes.sites.push((SiteId(number), site.sums));
                let Sums { largest, live, at_peak, .. } = site.sums;
                site.sums = Sums { largest, live, at_peak, ..Sums::default() };
            }
        }
        (changes.freed_by, changes.lived) = (self.freed_by.take(), self.lived.take());
        changes
    }

    fn site(&mut self, process: u32, node: u32, call: u8) -> SiteId {
        if self.processes.len() <= process as usize {
            self.processes.resize_with(process as usize + 1, Process::default);
        }
        let next = u32::try_from(self.sites.len()).unwrap_or(u32::MAX);
        let node = if node == layout::NO_NODE && self.copied >= MOST_COPIED { 1 } else { node };
        self.copied += usize::from(node == layout::NO_NODE);
        if node != layout::NO_NODE {
            let sites = &mut self.processes[process as usize].sites;
            let at = node as usize * CALLS + usize::from(call);
            if sites.len() <= at {
                sites.resize(at + at / 4 + 64, 0);
            }
            if let Some(known) = sites[at].checked_sub(1) {
                return SiteId(known);
            }
            sites[at] = next.saturating_add(1);
        }
        let sums = Sums::default();
        self.sites.push(Site { process, node, call, sums, version: 0, changed: false });
        SiteId(next)
    }

    fn allocate(&mut self, event: &Event, site: SiteId) {
        let key = key(event.process, event.address);
        let record = if event.kind == layout::EVENT_ALLOCATED {
            0
        } else {
            let number = self.records;
            self.records = number.saturating_add(1);
            self.recorded.push(Recorded::Allocated { number, event: *event, site });
            number.saturating_add(1)
        };
        let process = &mut self.processes[event.process as usize];
        process.live = process.live.saturating_add(event.size);
        let state = &mut self.sites[site.0 as usize];
        state.keep_share(process);
        state.changed = true;
        let sums = &mut state.sums;
        sums.allocations += 1;
        sums.allocated = sums.allocated.saturating_add(event.size);
        sums.live = sums.live.saturating_add(event.size);
        sums.largest = sums.largest.max(event.size);
        if process.live > process.peak {
            // What is live now is each site's share of the peak, until it changes.
            process.peak = process.live;
            process.version = process.version.wrapping_add(1);
        }
        if self.last.len() <= event.slot as usize {
            self.last.resize(event.slot as usize + 1, 0);
        }
        self.last[event.slot as usize] = key;
        let block = Live { site, slot: event.slot, size: event.size, born: event.time, record };
        if let Some(before) = self.live.insert(key, block) {
            self.displaced.entry(key).or_default().push(before);
        }
        if !self.early.is_empty() && self.early.contains_key(&key) {
            let Some(EarlyFree { event, site }) = self.early.remove(&key) else { return };
            if let Some(block) = self.live.remove(key) {
                self.freed(block, &event, site);
            }
        }
    }

    fn free(&mut self, event: &Event, site: SiteId) {
        let key = key(event.process, event.address);
        let older = if self.displaced.is_empty() { None } else { self.displaced.get_mut(&key) };
        let block = match older {
            Some(older) => {
                let block = (!older.is_empty()).then(|| older.remove(0));
                if older.is_empty() {
                    self.displaced.remove(&key);
                }
                block
            }
            None => self.live.remove(key),
        };
        let Some(block) = block else {
            // Its allocation is on its way. Or it never comes: it was lost, or a child frees a block of its parent.
            if self.early.len() >= MOST_EARLY {
                self.early.clear();
            }
            self.early.insert(key, EarlyFree { event: *event, site });
            return;
        };
        self.freed(block, event, site);
    }

    fn freed(&mut self, block: Live, event: &Event, by: SiteId) {
        let key = key(event.process, event.address);
        let last = block.slot == event.slot && self.last.get(block.slot as usize) == Some(&key);
        let process = &mut self.processes[event.process as usize];
        process.live = process.live.saturating_sub(block.size);
        let state = &mut self.sites[block.site.0 as usize];
        state.keep_share(process);
        state.changed = true;
        let sums = &mut state.sums;
        sums.frees += 1;
        sums.freed = sums.freed.saturating_add(block.size);
        sums.live = sums.live.saturating_sub(block.size);
        let lifetime = event.time.saturating_sub(block.born);
        sums.lifetime = sums.lifetime.saturating_add(lifetime);
        sums.temporary += u64::from(last);
        let nanos = (u128::from(lifetime) * u128::from(self.scale)) >> 32;
        let lived = lifetime_part(u64::try_from(nanos).unwrap_or(u64::MAX), last);
        self.freed_by.add(block.site, by.0, block.size);
        self.lived.add(block.site, lived, block.size);
        if let Some(number) = block.record.checked_sub(1) {
            let Event { time, tid, .. } = *event;
            self.recorded.push(Recorded::Freed { number, time, tid, site: by });
        }
    }
}
