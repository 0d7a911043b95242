//! The heap of a program: turns the records of the allocation agent, preloaded or brought in later, into facts.
//!
//! What for: the shared memory and the environment by which the agent finds it (`crates/agent`), records with their
//! stacks unwound, totals at the end. What not: the layout (`sys::heap`), copying out of the rings ([`rings`]), sums
//! and shares (`analysis`).
//!
//! Assumption: the program can write everything in the shared memory, so all of it is checked. A program that
//! overwrites it spoils only its own heap figures.

mod aggregate;
#[cfg_attr(not(target_arch = "x86_64"), path = "../absent/attach.rs")]
mod attach;
mod blocks;
mod clock;
mod exact;
mod merge;
mod parts;
mod rings;
mod rules;
mod totals;

pub(crate) use self::clock::both;

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use base::{AllocationId, Bytes, Nanos, Pid, RemoteAddr, StackId, ThreadId, Tid};
use facts::{Allocation, AllocationCall, Fact, LostSource, Release, SinkError};
use sys::shared::SharedMemory;
use sys::{heap, heap_exact};

use crate::address_space::CopiedStack;
use crate::recorder::{MappedBy, MappingCall, Moment, Recorder};
use attach::Attached;
pub use attach::NoHeap;
use exact::{Context, Exact, Reader};
use rings::{Drain, Happened, RawRecord};
use totals::Totals;

/// Why not every block can be recorded; `None` where it can.
pub const NO_EXACT_MODE: Option<&str> = if cfg!(target_arch = "x86_64") {
    None
} else {
    Some("unavailable on aarch64: stacks are followed inside the program on x86-64 only")
};

/// What to record of a heap.
#[derive(Clone, Debug)]
pub struct HeapOptions {
    /// The file of the agent; its name begins with `libfathom_agent-`.
    pub agent: PathBuf,
    /// Blocks of this size or more get a record each.
    pub large_from: Bytes,
    /// Mean bytes between two smaller blocks that get one.
    pub sample_every: Bytes,
    /// Record every block, and who frees it.
    pub every_block: bool,
    /// Count live bytes and their peak, for which the size of every block is remembered; always so with `every_block`.
    pub live: bool,
    /// Record calls of `mmap` and its kin.
    pub regions: bool,
    /// Bytes of stack copied per record.
    pub stack_bytes: u32,
}

/// Bytes that a thread may allocate before it publishes them. A smaller value costs an atomic addition more often. Where every
/// block is recorded, the peak comes from the records and is exact.
const SLACK: u64 = 16 << 10;

/// Time between two rows of counts.
const COUNT_INTERVAL: Nanos = Nanos(1_000_000_000);

/// A heap that is being recorded.
pub struct Heap {
    drain: Drain,
    /// For a process that ran before us.
    attached: Option<Attached>,
    environment: Vec<(OsString, OsString)>,
    sample_every: Bytes,
    exact: Exact,
    /// Whether exact mode meets code that it has no rules for yet.
    is_learning: bool,
    totals: Totals,
    /// When totals were written last.
    counted: Nanos,
    /// Records not yet in order, or of a process whose mappings may not be known yet.
    waiting: Vec<RawRecord>,
    /// Recorded blocks that are live, by process entry and address.
    live: HashMap<(u32, u64), AllocationId>,
    next: u32,
    /// Processes that wrote a record.
    met: BTreeSet<u32>,
    last_look: Nanos,
    reported_until: Nanos,
}

impl Heap {
    /// Creates the shared memory for a program that we will start, and begins to read it.
    pub fn prepare(options: &HeapOptions) -> io::Result<Heap> {
        let memory = SharedMemory::create(c"fathom-heap", memory_bytes(options))?;
        let mut preload = options.agent.clone().into_os_string();
        if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
            preload.push(":");
            preload.push(others);
        }
        let environment =
            vec![("LD_PRELOAD".into(), preload), (heap::VARIABLE.into(), memory.path().into())];
        Ok(Heap { environment, ..Heap::over(memory, options)? })
    }

    /// Brings the agent into a running process, and begins to read what it writes.
    ///
    /// # Errors
    /// Why the process's heap will not be recorded. The process continues unchanged.
    pub fn attach(pid: Pid, options: &HeapOptions) -> Result<Heap, NoHeap> {
        let (mut attached, memory) = Attached::bring(pid, options, memory_bytes(options))?;
        let mut heap = Heap::over(memory, options)?;
        attached.look(Nanos(0));
        heap.attached = Some(attached);
        Ok(heap)
    }

    fn over(memory: SharedMemory, options: &HeapOptions) -> io::Result<Heap> {
        let exact = options.every_block.then(Reader::start);
        memory.store_u64(heap::HEADER_LARGE_FROM, options.large_from.0);
        memory.store_u64(heap::HEADER_SAMPLE_EVERY, options.sample_every.0);
        memory.store_u64(heap::HEADER_STACK_BYTES, u64::from(options.stack_bytes));
        memory.store_u64(heap::HEADER_SLACK, SLACK);
        let live = options.live || options.every_block;
        memory.store_u64(heap::HEADER_LIVE, u64::from(live));
        let ticks = exact.as_ref().is_some_and(Reader::has_ticks);
        memory.store_u64(heap::HEADER_EXACT, u64::from(exact.is_some()));
        memory.store_u64(heap::HEADER_TICKS, u64::from(ticks));
        memory.store_u64(heap::HEADER_FREE_STACKS, u64::from(exact.is_some()));
        // Where every block has a record, rings have no room for mapping records; readings of the maps find what is
        // mapped, without its caller.
        let regions = options.regions && !options.every_block;
        memory.store_u64(heap::HEADER_REGIONS, u64::from(regions));
        memory.store_u64(heap::HEADER_MAGIC, heap::MAGIC);
        Ok(Heap {
            drain: Drain::start(memory, exact)?,
            attached: None,
            environment: Vec::new(),
            sample_every: options.sample_every,
            exact: Exact::default(),
            is_learning: false,
            totals: Totals::default(),
            counted: Nanos(0),
            waiting: Vec::new(),
            live: HashMap::new(),
            next: 0,
            met: BTreeSet::new(),
            last_look: Nanos(0),
            reported_until: Nanos(0),
        })
    }

    /// What the program's environment must contain.
    #[must_use]
    pub fn environment(&self) -> &[(OsString, OsString)] {
        &self.environment
    }

    /// Hands over records that are old enough to be in order and whose mappings the recorder knows: those of the last
    /// call. `now` is since `start`, when the recording began. Call it after the source's own `look`.
    pub fn look(
        &mut self,
        now: Nanos,
        start: Nanos,
        recorder: &mut Recorder<'_>,
    ) -> Result<(), SinkError> {
        if let Some(attached) = &mut self.attached {
            attached.look(now);
        }
        // Read the limit before taking records: what was written since may still be in rings.
        let read_until = self.drain.read_until() - start;
        let new = self.drain.take();
        for record in &new {
            // Where the source announces no mappings, they are read once per process.
            let ip = RemoteAddr(record.registers[sys::perf::USER_INSTRUCTION_POINTER]);
            if self.met.insert(record.process) && recorder.locate(record.pid, ip).is_none() {
                recorder.read_maps(now, record.pid)?;
            }
        }
        self.waiting.extend(new);
        let announced = std::mem::replace(&mut self.last_look, now);
        let safe = announced.min(read_until);
        self.reported_until = safe;
        self.hand_over(safe, now, start, recorder)?;
        self.look_exactly(now, start, announced, false, recorder)?;
        if now - self.counted >= COUNT_INTERVAL {
            self.count(now, recorder)?;
        }
        Ok(())
    }

    /// How long the next call can wait: while the agent copies stacks because it lacks rules, each event takes a
    /// microsecond.
    #[must_use]
    pub fn patience(&self) -> Duration {
        match self.drain.exact() {
            Some(_) if self.is_learning => Duration::from_millis(1),
            Some(_) => Duration::from_millis(10),
            None => Duration::MAX,
        }
    }

    fn look_exactly(
        &mut self,
        now: Nanos,
        start: Nanos,
        announced: Nanos,
        last: bool,
        recorder: &mut Recorder<'_>,
    ) -> Result<(), SinkError> {
        let Some(reader) = self.drain.exact() else { return Ok(()) };
        let (memory, sample_every) = (self.drain.memory(), self.sample_every);
        let context = Context { memory, reader, now, start, announced, sample_every };
        self.is_learning = self.exact.look(&context, last, &mut self.next, recorder)?;
        Ok(())
    }

    /// Writes the counts since the last call.
    fn count(&mut self, now: Nanos, recorder: &mut Recorder<'_>) -> Result<(), SinkError> {
        self.counted = now;
        let exact = self.drain.exact().filter(|_| self.drain.lost() == 0);
        for row in self.totals.rows(self.drain.memory(), SLACK, exact) {
            recorder.push(row)?;
        }
        Ok(())
    }

    /// All earlier events were handed over; since the start of the recording.
    #[must_use]
    pub fn reported_until(&self) -> Nanos {
        self.reported_until
    }

    /// Reads the rest. Later events of the program are not recorded.
    pub fn stop(&mut self) {
        if let Some(attached) = &self.attached {
            let memory = self.drain.memory();
            let known = usize::try_from(memory.load_u64(heap::HEADER_PROCESSES).unwrap_or(0));
            let known = known.unwrap_or(usize::MAX).min(heap::PROCESSES);
            attached.put_back((0..known).map(|number| rings::pid(memory, number)));
        }
        self.waiting.append(&mut self.drain.stop());
    }

    /// Hands over the rest and the totals, after the source has handed over its own. `end` is the recording's.
    pub fn finish(
        mut self,
        end: Nanos,
        start: Nanos,
        recorder: &mut Recorder<'_>,
    ) -> Result<Vec<String>, SinkError> {
        self.hand_over(Nanos(u64::MAX), end, start, recorder)?;
        recorder.lost(end, LostSource::Allocations, self.drain.lost())?;
        let regions = self.drain.lost_regions().saturating_add(recorder.regions_left_out());
        recorder.lost(end, LostSource::Regions, regions)?;
        self.look_exactly(end, start, end, true, recorder)?;
        self.count(end, recorder)?;
        let mut notes = self.attached.as_ref().map(Attached::notes).unwrap_or_default();
        let nothing = self.totals.processes().next().is_none();
        if nothing && self.attached.is_some() {
            notes.push("no heap blocks were allocated while the process was watched".to_owned());
        } else if nothing {
            notes.push(
                "no heap blocks were seen: the program is linked statically, runs as another user, or unsets LD_PRELOAD"
                    .to_owned(),
            );
        }
        let without = self.totals.processes().filter(|total| total.allocations == 0);
        let without: Vec<Pid> = without.map(|total| total.pid).collect();
        if let Some(first) = without.first() {
            let others = match without.len() - 1 {
                0 => String::new(),
                others => format!(" and {others} others"),
            };
            notes.push(format!(
                "process {first}{others} allocated nothing through the C library: it may bring an allocator of its own, or have a limit of address space (ulimit -v) that leaves no room to count; its blocks are not seen"
            ));
        }
        let memory = self.drain.memory();
        let word = |at| memory.load_u64(at).unwrap_or(0);
        let nameless = (0..heap::PROCESSES)
            .map(|number| heap::PROCESSES_AT + number * heap::PROCESS_BYTES)
            .map(|at| word(at + heap::PROCESS_TREE_FULL))
            .fold(0, u64::saturating_add);
        if nameless > 0 {
            notes.push(format!(
                "{nameless} heap blocks or frees are attributed to an outer caller: there is room for {} call chains in a process",
                heap_exact::NODES
            ));
        }
        let processes = word(heap::HEADER_PROCESSES).saturating_sub(heap::PROCESSES as u64);
        let threads = word(heap::HEADER_REFUSED);
        if processes + threads > 0 {
            notes.push(format!(
                "the heap of {processes} processes and {threads} threads was not counted: there is room for {} and {}",
                heap::PROCESSES,
                heap::SLOTS
            ));
        }
        Ok(notes)
    }

    fn hand_over(
        &mut self,
        until: Nanos,
        now: Nanos,
        start: Nanos,
        recorder: &mut Recorder<'_>,
    ) -> Result<(), SinkError> {
        self.waiting.sort_by_key(|record| record.time);
        let until = Nanos(until.0.saturating_add(start.0));
        let ready = self.waiting.partition_point(|record| record.time <= until);
        let ready: Vec<RawRecord> = self.waiting.drain(..ready).collect();
        for record in ready {
            // The program's clock is ours, unless its record is false.
            let time = (record.time - start).min(now);
            self.record(time, &record, recorder)?;
        }
        Ok(())
    }

    fn record(
        &mut self,
        time: Nanos,
        record: &RawRecord,
        recorder: &mut Recorder<'_>,
    ) -> Result<(), SinkError> {
        let RawRecord { pid, tid, .. } = *record;
        let key = (record.process, record.address);
        let stack = stack_of(time, record, recorder)?;
        match record.happened {
            Happened::Mapped { bytes, flags } => {
                let (start, by) = (RemoteAddr(record.address), MappedBy::Mapping { flags });
                recorder.region_mapped(MappingCall { time, pid, tid, start, bytes, by, stack })
            }
            Happened::Grown { bytes } => {
                let (start, by) = (RemoteAddr(record.address), MappedBy::Break);
                recorder.region_mapped(MappingCall { time, pid, tid, start, bytes, by, stack })
            }
            Happened::Unmapped { bytes } => {
                recorder.region_unmapped(time, pid, RemoteAddr(record.address), bytes)
            }
            Happened::Freed => match self.live.remove(&key) {
                Some(allocation) => {
                    recorder.push(Fact::Release(Release { time, allocation, tid, stack }))
                }
                None => Ok(()),
            },
            Happened::Allocated { call, size, by_lot } => {
                let id = AllocationId(self.next);
                self.next = self.next.saturating_add(1);
                if let Some(allocation) = self.live.insert(key, id) {
                    // The free was not observed: its file was not redirected.
                    recorder.push(Fact::Release(Release { time, allocation, tid, stack: None }))?;
                }
                recorder.push(Fact::Allocation(Allocation {
                    id,
                    time,
                    pid,
                    tid,
                    address: RemoteAddr(record.address),
                    size,
                    call,
                    stack,
                    sample_every: if by_lot { self.sample_every } else { Bytes(0) },
                }))
            }
        }
    }
}

fn stack_of(
    time: Nanos,
    record: &RawRecord,
    recorder: &mut Recorder<'_>,
) -> Result<Option<StackId>, SinkError> {
    if record.stack.is_empty() {
        return Ok(None);
    }
    let at = Moment { time, pid: record.pid, tid: record.tid, cpu: None };
    recorder.caller_of_agent(at, CopiedStack { registers: &record.registers, bytes: &record.stack })
}

/// The call of a record; an unknown number counts as `malloc`.
fn call(number: u32) -> AllocationCall {
    match number {
        heap::CALL_CALLOC => AllocationCall::Calloc,
        heap::CALL_REALLOC => AllocationCall::Realloc,
        heap::CALL_ALIGNED => AllocationCall::Aligned,
        heap::CALL_PERSISTENT => AllocationCall::Persistent,
        _ => AllocationCall::Malloc,
    }
}

/// Bytes of shared memory that a mode needs.
fn memory_bytes(options: &HeapOptions) -> usize {
    if options.every_block { heap_exact::TOTAL_BYTES } else { heap::TOTAL_BYTES }
}

/// Ids, for `rings`, which reads them.
fn ids(pid: Pid, tid: u32) -> ThreadId {
    ThreadId::new(pid, Tid(i32::try_from(tid).unwrap_or(0)))
}
