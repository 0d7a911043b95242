//! Exact mode: every block, summed per call chain; unwind rules for the agent; facts about once a second.
//!
//! What for: [`Reader`] belongs to the thread that reads rings and sums. [`Exact`] belongs to the recording, which
//! has the recorder: it names stacks, makes rules for code that the agent could not unwind, and writes facts. What
//! not: arithmetic (`aggregate`), order (`merge`), the facts that sums become ([`rows`]).
//!
//! Assumption: nodes and stacks come from memory that the program can write. Numbers are checked, and chains are cut
//! at [`MOST_FRAMES`].

mod rows;

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use base::{AllocationId, Bytes, Nanos, RemoteAddr, StackId, Tid};
use facts::{Allocation, Fact, Release, SinkError};
use sys::heap_exact as layout;
use sys::shared::SharedMemory;

use super::aggregate::{Aggregator, Event, Recorded, Site, SiteId};
use super::clock::Clock;
use super::merge::{self, CopiedEvent, Cursor, RingContent};
use super::rules::{self, ReturnAddress, Rules};
use crate::address_space::CopiedStack;
use crate::recorder::{Moment, Recorder};

/// Most frames of a chain of nodes; the agent makes at most 2048.
const MOST_FRAMES: usize = 4096;
/// Most copied stacks that wait; beyond, events stay in their rings: 200 MB with 8 KiB each.
const MOST_COPIED: usize = 25_000;
/// Time between two rows of one call chain.
const INTERVAL: Nanos = Nanos(1_000_000_000);

/// An event whose stack has to be unwound.
struct Copied {
    site: SiteId,
    time: u64,
    process: u32,
    tid: Tid,
    event: CopiedEvent,
}

/// What both sides share.
#[derive(Default)]
struct Shared {
    aggregator: Aggregator,
    copied: Vec<Copied>,
}

/// The side of the thread that reads rings.
pub struct Reader {
    clock: Clock,
    shared: Mutex<Shared>,
}

impl Reader {
    /// A reader that has read nothing yet.
    pub fn start() -> Reader {
        Reader { clock: Clock::start(), shared: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether stamps are ticks.
    pub fn has_ticks(&self) -> bool {
        self.clock.has_ticks()
    }

    /// Whether copied stacks wait: rings that hold some fill quickly.
    pub fn is_learning(&self) -> bool {
        !self.lock().copied.is_empty()
    }

    /// Most bytes that were live at once in a process, by its entry.
    pub fn peak(&self, process: usize) -> Option<Bytes> {
        self.lock().aggregator.peak(process)
    }

    /// Reads the content of the slots, up to a moment ago, or all if `last`. `other` takes a record that is no event
    /// and returns its length. Returns the number of records read.
    pub fn read(
        &self,
        memory: &SharedMemory,
        last: bool,
        mut other: impl FnMut(&Cursor) -> Option<u64>,
    ) -> usize {
        let until = if last { u64::MAX } else { self.clock.stamp().saturating_sub(merge::LAG) };
        let mut cursors: Vec<Cursor> =
            super::rings::slots(memory).filter_map(|slot| Cursor::of(memory, slot)).collect();
        let mut count = 0;
        if cursors.is_empty() {
            return count;
        }
        let mut clock = self.clock;
        clock.adjust();
        let mut shared = self.lock();
        shared.aggregator.set_scale(clock.length(1 << 32).0);
        if shared.copied.len() > MOST_COPIED {
            return count;
        }
        merge::in_order(memory, &mut cursors, until, |cursor, until| {
            while cursor.tail != cursor.head {
                count += 1;
                let length = match cursor.read(memory) {
                    Some((length, RingContent::Nothing)) => Some(length),
                    Some((_, RingContent::Event(event, _))) if event.time > until => break,
                    Some((length, RingContent::Event(event, copied))) => {
                        shared.take(&event, copied);
                        Some(length)
                    }
                    Some((_, RingContent::Other)) | None => other(cursor),
                };
                // After an invalid record no further one can be located.
                cursor.tail = length.map_or(cursor.head, |length| cursor.tail.wrapping_add(length));
            }
        });
        count
    }
}

impl Shared {
    #[inline]
    fn take(&mut self, event: &Event, copied: Option<Box<CopiedEvent>>) {
        let site = self.aggregator.add(event);
        if let Some(stack) = copied {
            let Event { time, process, tid, .. } = *event;
            self.copied.push(Copied { site, time, process, tid, event: *stack });
        }
    }
}

/// A site as the recording knows it.
#[derive(Clone, Copy)]
struct Named {
    process: u32,
    call: u8,
    stack: Option<StackId>,
}

/// The side of the recording.
#[derive(Default)]
pub struct Exact {
    rules: Rules,
    /// By site.
    named: Vec<Named>,
    /// Living recorded blocks by their number, and when they were allocated.
    living: HashMap<u32, (AllocationId, Nanos)>,
    /// Stacks in code whose mapping the source has not announced yet, of a process that has ended.
    unannounced: Vec<Copied>,
    /// Blocks with a record that wait for such a stack.
    recorded: Vec<Recorded>,
    written: Nanos,
    /// By process, stack and call: values that are repeated in every row because they are no differences.
    rows: HashMap<(u32, Option<StackId>, u8), Row>,
    /// For each site, the value in its row.
    at_peak: HashMap<SiteId, u64>,
}

#[derive(Clone, Copy, Default)]
struct Row {
    largest: u64,
    at_peak: u64,
}

/// What a reading needs in addition.
pub struct Context<'a> {
    /// The shared memory.
    pub memory: &'a SharedMemory,
    /// The thread's side.
    pub reader: &'a Reader,
    /// The time since the recording began.
    pub now: Nanos,
    /// When it began.
    pub start: Nanos,
    /// The source has announced all mappings made before this time.
    pub announced: Nanos,
    /// Mean bytes between drawn blocks.
    pub sample_every: Bytes,
}

impl Context<'_> {
    /// Whether the code that a copied stack returns to is in a known file; reads the mappings of a living process.
    fn knows_code(&self, copied: &Copied, recorder: &mut Recorder<'_>) -> Result<bool, SinkError> {
        let pid = super::rings::pid(self.memory, copied.process as usize);
        let ip = copied.event.registers[sys::perf::USER_INSTRUCTION_POINTER];
        recorder.know_return(self.now, pid, RemoteAddr(ip))
    }

    fn moment(&self, time: Nanos, process: u32, tid: Tid) -> Moment {
        let pid = super::rings::pid(self.memory, process as usize);
        Moment { time, pid, tid, cpu: None }
    }
}

impl Exact {
    /// Hands over what is new; sums once a second or if `last`. `next` numbers blocks that have a record. Returns whether there were stacks to learn from: then more come
    /// soon.
    pub fn look(
        &mut self,
        at: &Context<'_>,
        last: bool,
        next: &mut u32,
        recorder: &mut Recorder<'_>,
    ) -> Result<bool, SinkError> {
        let mut clock = at.reader.clock;
        clock.adjust();
        let time = |stamp: u64| (clock.time(stamp) - at.start).min(at.now);
        let overdue = last || at.now - self.written >= Nanos(2 * INTERVAL.0);
        let (sites, copied, changes) = {
            let Shared { aggregator, copied } = &mut *at.reader.lock();
            let mut ready = Vec::with_capacity(copied.len());
            let waiting = std::mem::take(&mut self.unannounced);
            for copied in waiting.into_iter().chain(copied.drain(..)) {
                let is_known = at.knows_code(&copied, recorder)?;
                if is_known || overdue || time(copied.time) <= at.announced {
                    ready.push(copied);
                } else {
                    self.unannounced.push(copied);
                }
            }
            self.recorded.append(&mut aggregator.recorded);
            // Sums are written under the stacks of their sites.
            let elapsed = at.now - self.written >= INTERVAL;
            let is_due = overdue || elapsed && self.unannounced.is_empty();
            let changes = is_due.then(|| aggregator.take());
            (aggregator.new_sites().to_vec(), ready, changes)
        };
        for site in &sites {
            let stack = self.stack_of_node(at, site, recorder)?;
            self.named.push(Named { process: site.process, call: site.call, stack });
        }
        for copied in &copied {
            self.unwind(at, copied, time(copied.time), recorder)?;
        }
        if self.unannounced.is_empty() {
            for block in std::mem::take(&mut self.recorded) {
                self.record(at, block, &time, next, recorder)?;
            }
        }
        if let Some(changes) = changes {
            self.written = at.now;
            self.write(at, &changes, |units| clock.length(units), recorder)?;
        }
        Ok(!copied.is_empty())
    }

    fn stack_of(&self, site: SiteId) -> Option<StackId> {
        self.named.get(site.0 as usize).and_then(|named| named.stack)
    }

    /// The stack of a site's node; `None` for a site whose stack was copied.
    fn stack_of_node(
        &self,
        at: &Context<'_>,
        site: &Site,
        recorder: &mut Recorder<'_>,
    ) -> Result<Option<StackId>, SinkError> {
        if site.node == layout::NO_NODE || site.process as usize >= layout::REGIONS {
            return Ok(None);
        }
        let nodes = rules::region(site.process) + layout::NODES_AT;
        let mut addresses = Vec::new();
        let mut node = site.node;
        while node >= layout::FIRST_NODE && addresses.len() < MOST_FRAMES {
            let [address, parent] =
                at.memory.array(nodes + 16 * (node as usize % layout::NODES)).unwrap_or([0, 0]);
            if address >= layout::FIRST_ADDRESS {
                addresses.push(address);
            }
            node = u32::try_from(parent).unwrap_or(layout::CUT_ROOT);
        }
        let complete = node == layout::ROOT;
        let moment = at.moment(at.now, site.process, Tid(0));
        recorder.stack_of_returns(moment, &addresses, complete)
    }

    /// Unwinds a copied stack, and makes rules for its frames.
    fn unwind(
        &mut self,
        at: &Context<'_>,
        copied: &Copied,
        time: Nanos,
        recorder: &mut Recorder<'_>,
    ) -> Result<(), SinkError> {
        let Copied { process, event, .. } = copied;
        let moment = at.moment(time, *process, copied.tid);
        let stack = CopiedStack { registers: &event.registers, bytes: &event.stack };
        let generation = event.missing >> 48;
        let mut seen = vec![RemoteAddr(event.missing & 0xffff_ffff_ffff)];
        let stack = recorder.stack_from_return(moment, stack, |address| seen.push(address))?;
        if let Some(named) = self.named.get_mut(copied.site.0 as usize) {
            named.stack = stack;
        }
        for address in seen.into_iter().filter(|address| address.0 >= layout::FIRST_ADDRESS) {
            let code = ReturnAddress { process: *process, generation, address };
            if self.rules.is_new(code) {
                recorder.know_return(at.now, moment.pid, address)?;
                if let Some(rule) = recorder.return_rule(moment.pid, address) {
                    Rules::publish(at.memory, code, rule);
                }
            }
        }
        Ok(())
    }

    /// A block that has a record of its own, or its end.
    fn record(
        &mut self,
        at: &Context<'_>,
        block: Recorded,
        time: &impl Fn(u64) -> Nanos,
        next: &mut u32,
        recorder: &mut Recorder<'_>,
    ) -> Result<(), SinkError> {
        match block {
            Recorded::Allocated { number, event, site } => {
                let id = AllocationId(*next);
                *next = next.saturating_add(1);
                let begin = time(event.time);
                self.living.insert(number, (id, begin));
                let by_lot = event.kind == layout::EVENT_DRAWN;
                recorder.push(Fact::Allocation(Allocation {
                    id,
                    time: begin,
                    pid: super::rings::pid(at.memory, event.process as usize),
                    tid: event.tid,
                    address: RemoteAddr(event.address),
                    size: Bytes(event.size),
                    call: super::call(u32::from(event.call)),
                    stack: self.stack_of(site),
                    sample_every: if by_lot { at.sample_every } else { Bytes(0) },
                }))
            }
            Recorded::Freed { number, time: stamp, tid, site } => {
                let Some((allocation, begin)) = self.living.remove(&number) else { return Ok(()) };
                // The scale was measured again since: the same stamp may now convert to a time some nanoseconds
                // earlier.
                let (time, stack) = (time(stamp).max(begin), self.stack_of(site));
                recorder.push(Fact::Release(Release { time, allocation, tid, stack }))
            }
        }
    }
}
