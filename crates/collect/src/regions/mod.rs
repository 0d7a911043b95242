//! The memory regions of a program over time, and what backs some of their pages (`pages`).
//!
//! What for: `/proc/PID/maps` is read when a process begins, soon after, and then about once a second. Each
//! difference from the previous reading becomes a [`Region`] or a [`RegionEnd`]. The preloaded agent reports the
//! program's own calls of `mmap` and `brk` with thread, time and stack. These are recorded first, so that a reading
//! adds only what was not reported. Heaps of glibc's malloc other than the first are distinguished from other
//! anonymous memory by their contents (`arenas`). What not: which accesses lie in a region (`analysis`).
//!
//! Times: a region that a reading finds begins at the previous reading. If something else was in its place then, it
//! begins at the later reading. An end has the time of the reading that missed the region.
//!
//! A thread's stack is the range above a guard that holds its stack pointer, as samples show it. Without a guard (a
//! size of 0, or one made by MADV_GUARD_INSTALL) it stays anonymous memory.
//!
//! Cost: some 30 us per reading of a small process. Readings take at most 0.5 % of the time of one process, and of
//! all processes together except for the first [`CREDIT`]. A build starts dozens of processes a second, each worth
//! some readings: those beyond the limit come late or not at all.

mod arenas;
mod known;
mod pages;
mod snapshot;

use std::collections::BTreeMap;

use base::{Bytes, FileOffset, Nanos, Pid, RemoteAddr, StackId, Tid};
use facts::{Fact, Region, RegionEnd, RegionKind, Sink, SinkError};
use sys::process::thread_cpu_time;
use tracee::maps;

use self::known::{Backing, KnownRanges, Range};
use self::pages::PageLooks;
use self::snapshot::{HugeMount, Snapshot};

/// From the start of a process to its second reading; each later interval is twice as long.
const FIRST_INTERVAL: Nanos = Nanos(5_000_000);
const INTERVAL: Nanos = Nanos(1_000_000_000);
/// A reading may take this part of the time until the next.
const SHARE: u64 = 200;
/// CPU time that readings may take in addition.
const CREDIT: Nanos = Nanos(10_000_000);
/// Most processes that are read; further ones have no regions.
const MOST_PROCESSES: usize = 64;
/// Most reported calls that become regions; beyond, only readings find them. A region takes some 60 bytes of the
/// result.
const MOST_CALLS: u64 = 200_000;
/// Most threads of a process whose stack pointer is kept.
const MOST_THREADS: usize = 4096;

/// A call of `mmap` or `brk` that the agent reported.
#[derive(Clone, Copy, Debug)]
pub struct MappingCall {
    /// When.
    pub time: Nanos,
    /// In which process.
    pub pid: Pid,
    /// The calling thread.
    pub tid: Tid,
    /// First address.
    pub start: RemoteAddr,
    /// The size that was asked for.
    pub bytes: Bytes,
    /// By which call.
    pub by: MappedBy,
    /// The caller.
    pub stack: Option<StackId>,
}

/// How the program got memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MappedBy {
    /// By mmap(2), with these flags.
    Mapping {
        /// `MAP_*`.
        flags: u32,
    },
    /// By moving the end of its data segment: brk(2).
    Break,
}

#[derive(Default)]
struct Process {
    began: Nanos,
    last_look: Nanos,
    next_look: Nanos,
    known: KnownRanges,
    /// The last reading, until everything before it was reported.
    seen: Option<(Nanos, Snapshot)>,
    /// A reading for reported calls, for this round.
    now: Option<Snapshot>,
    huge: Option<Vec<HugeMount>>,
    /// Threads: their start, and their last stack pointer.
    threads: BTreeMap<Tid, (Nanos, Option<RemoteAddr>)>,
    /// Starts of stacks with their thread.
    stacks: BTreeMap<RemoteAddr, Tid>,
    pages: PageLooks,
    /// It has ended; reports of the agent may still arrive.
    ended: bool,
}

/// The regions of all processes.
#[derive(Default)]
pub struct Regions {
    processes: BTreeMap<Pid, Process>,
    calls: u64,
    /// CPU time that readings took.
    spent: Nanos,
}

impl Regions {
    /// A thread was born, or exists when we start; with its first thread a process begins.
    pub fn thread_began(&mut self, time: Nanos, pid: Pid, tid: Tid) {
        let fresh =
            || Process { began: time, last_look: time, next_look: time, ..Process::default() };
        let process = self.processes.entry(pid).or_insert_with(fresh);
        if process.ended {
            *process = fresh();
        }
        if process.threads.len() < MOST_THREADS {
            process.threads.insert(tid, (time, None));
        }
    }

    /// The process executes another program.
    pub fn executed(
        &mut self,
        time: Nanos,
        pid: Pid,
        sink: &mut dyn Sink,
    ) -> Result<(), SinkError> {
        let former = self.processes.remove(&pid);
        self.thread_began(time, pid, Tid(pid.0));
        match former.and_then(|former| former.known.span()) {
            Some((start, bytes)) => {
                sink.push(Fact::RegionEnd(RegionEnd { time, pid, start, bytes }))
            }
            None => Ok(()),
        }
    }

    /// A thread ended.
    pub fn thread_ended(&mut self, pid: Pid, tid: Tid) {
        if let Some(process) = self.processes.get_mut(&pid) {
            process.threads.remove(&tid);
        }
    }

    /// A process ended.
    pub fn ended(&mut self, pid: Pid) {
        if let Some(process) = self.processes.get_mut(&pid) {
            process.ended = true;
        }
        let ended = self.processes.iter().filter(|(_, process)| process.ended);
        let ended: Vec<(Nanos, Pid)> = ended.map(|(pid, process)| (process.began, *pid)).collect();
        if ended.len() > MOST_PROCESSES
            && let Some((_, first)) = ended.iter().min()
        {
            self.processes.remove(first);
        }
    }

    /// The living processes, as many as are read.
    fn living(&mut self) -> impl Iterator<Item = (&Pid, &mut Process)> {
        self.processes.iter_mut().filter(|(_, process)| !process.ended).take(MOST_PROCESSES)
    }

    /// Notes a thread's stack pointer.
    pub fn stack_pointer(&mut self, pid: Pid, tid: Tid, at: RemoteAddr) {
        let process = self.processes.get_mut(&pid);
        if let Some((_, pointer)) = process.and_then(|process| process.threads.get_mut(&tid)) {
            *pointer = Some(at);
        }
    }

    /// When the next reading is due.
    #[must_use]
    pub fn due(&self) -> Option<Nanos> {
        let living = self.processes.values().filter(|process| !process.ended);
        let next = living.take(MOST_PROCESSES).map(|process| process.next_look).min();
        next.map(|next| next.max(affordable_at(self.spent)))
    }

    /// The program mapped memory. Calls come in the order of time, so that a reading is compared with what was there
    /// when it was made.
    pub fn mapped(&mut self, call: MappingCall, sink: &mut dyn Sink) -> Result<(), SinkError> {
        let MappingCall { time, pid, tid, start, bytes, by, stack } = call;
        let Some(process) = self.processes.get_mut(&pid).filter(|process| process.began <= time)
        else {
            return Ok(());
        };
        self.calls += 1;
        let length = match by {
            MappedBy::Mapping { .. } => bytes.0.checked_next_multiple_of(PAGE),
            // The next brk extends the segment from there.
            MappedBy::Break => Some(bytes.0),
        };
        let end = length.and_then(|bytes| start.0.checked_add(bytes));
        let Some(end) = end.map(RemoteAddr).filter(|end| start < *end && self.calls <= MOST_CALLS)
        else {
            return Ok(());
        };
        process.compare(pid, time, sink)?;
        let (backing, offset) = match by {
            MappedBy::Mapping { flags } => process.backing_of(pid, start, flags),
            MappedBy::Break => (Backing::of_break(), FileOffset(0)),
        };
        let range = Range { start, end, offset, backing };
        process.known.insert(&range, time);
        push(time, pid, Some(tid), &range, stack, sink)
    }

    /// Number of reported calls beyond the limit.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.calls.saturating_sub(MOST_CALLS)
    }

    /// The program unmapped memory. Calls come in the order of time.
    pub fn unmapped(
        &mut self,
        time: Nanos,
        pid: Pid,
        start: RemoteAddr,
        bytes: Bytes,
        sink: &mut dyn Sink,
    ) -> Result<(), SinkError> {
        let Some(process) = self.processes.get_mut(&pid).filter(|process| process.began <= time)
        else {
            return Ok(());
        };
        let bytes = bytes.0.checked_next_multiple_of(PAGE).filter(|bytes| *bytes > 0);
        let Some(end) = bytes.and_then(|bytes| start.0.checked_add(bytes)).map(RemoteAddr) else {
            return Ok(());
        };
        process.compare(pid, time, sink)?;
        if !process.known.remove(start, end) {
            return Ok(());
        }
        process.stacks.retain(|at, _| *at < start || *at >= end);
        let bytes = Bytes(end.0 - start.0);
        sink.push(Fact::RegionEnd(RegionEnd { time, pid, start, bytes }))
    }

    /// Reads the processes that are due. The agent has reported everything that happened before `reported_until`.
    pub fn look(
        &mut self,
        now: Nanos,
        reported_until: Nanos,
        sink: &mut dyn Sink,
    ) -> Result<(), SinkError> {
        let (living, mut spent) = (self.living().count(), self.spent);
        for (pid, process) in self.living() {
            process.now = None;
            process.compare(*pid, reported_until, sink)?;
            let is_due = process.next_look <= now && affordable_at(spent) <= now;
            if is_due && process.seen.is_none() {
                let began = thread_cpu_time();
                process.take(*pid, now);
                process.draw_pages(*pid, living, sink)?;
                process.compare(*pid, reported_until, sink)?;
                spent += thread_cpu_time() - began;
            }
        }
        self.spent = spent;
        Ok(())
    }

    /// Compares the last readings; no more reports will come. Processes that still run are read once more, for their pages.
    pub fn finish(&mut self, now: Nanos, sink: &mut dyn Sink) -> Result<(), SinkError> {
        for (pid, process) in &mut self.processes {
            process.compare(*pid, Nanos(u64::MAX), sink)?;
        }
        let living = self.living().count();
        for (pid, process) in self.living() {
            let ranges = process.read(*pid).ranges;
            let pages = pages::draw(*pid, now, &ranges, pages::MOST / living);
            pages.into_iter().try_for_each(|page| sink.push(Fact::Page(page)))?;
        }
        Ok(())
    }
}

/// The earliest time of a next reading, if all of them together took this long.
fn affordable_at(spent: Nanos) -> Nanos {
    Nanos(spent.0.saturating_sub(CREDIT.0).saturating_mul(SHARE))
}

/// The page size of every x86-64 kernel and most AArch64 kernels. Where pages are larger, the next reading corrects a
/// region's end.
const PAGE: u64 = 4096;

impl Process {
    fn read(&mut self, pid: Pid) -> Snapshot {
        let huge = self.huge.get_or_insert_with(|| {
            let mounts = std::fs::read(format!("/proc/{pid}/mounts")).unwrap_or_default();
            snapshot::huge_mounts(&String::from_utf8_lossy(&mounts))
        });
        let mut snapshot = Snapshot::parse(&maps::read(pid), huge, default_huge_page());
        arenas::name(pid, &mut snapshot.ranges);
        snapshot
    }

    fn take(&mut self, pid: Pid, now: Nanos) {
        let began = sys::process::monotonic();
        let snapshot = self.read(pid);
        let took = sys::process::monotonic() - began;
        let age = (now - self.began).max(FIRST_INTERVAL).min(INTERVAL);
        self.next_look = now + age.max(Nanos(took.0.saturating_mul(SHARE)));
        // A process that has ended has no mappings; the ends of its regions need no facts.
        self.seen = (!snapshot.mapped.is_empty()).then_some((now, snapshot));
    }

    /// Draws pages of the ranges just read, if that is due.
    fn draw_pages(
        &mut self,
        pid: Pid,
        processes: usize,
        sink: &mut dyn Sink,
    ) -> Result<(), SinkError> {
        let Some((now, snapshot)) = &self.seen else { return Ok(()) };
        let pages = self.pages.draw(pid, (self.began, *now), &snapshot.ranges, processes);
        pages.into_iter().try_for_each(|page| sink.push(Fact::Page(page)))
    }

    /// The backing of memory that a reported call mapped: by its flags, and by the kernel's name where these do not
    /// suffice.
    fn backing_of(&mut self, pid: Pid, start: RemoteAddr, flags: u32) -> (Backing, FileOffset) {
        const SHARED: u32 = 1;
        const ANONYMOUS: u32 = 0x20;
        const HUGE: u32 = 0x4_0000;
        // Bits 26 to 31: the size of a huge page as a power of two; 0 for the default (mmap(2)).
        let page = match flags >> 26 {
            _ if flags & HUGE == 0 => None,
            0 => default_huge_page(),
            bits => Some(Bytes(1u64.checked_shl(bits).unwrap_or(0))).filter(|page| page.0 > 0),
        };
        let kind = match (flags & HUGE != 0, flags & ANONYMOUS != 0, flags & SHARED != 0) {
            (true, _, _) => RegionKind::Huge,
            (_, true, false) => RegionKind::Anonymous,
            (_, true, true) => RegionKind::Shared,
            (_, false, _) => RegionKind::File,
        };
        if kind != RegionKind::Anonymous {
            let not_anonymous = |range: &&Range| range.backing.kind != RegionKind::Anonymous;
            // A reading after the call that still waits is nearest to it: the program may have ended since.
            let waiting = self.seen.as_ref().and_then(|(_, seen)| seen.holding(start));
            let mut found = waiting.filter(not_anonymous).cloned();
            if found.is_none() {
                if self.now.is_none() {
                    self.now = Some(self.read(pid));
                }
                let now = self.now.as_ref().and_then(|now| now.holding(start));
                // Something else may be there by now. But a file is not taken for anonymous memory, nor anonymous
                // memory for a file.
                found = now.filter(not_anonymous).cloned();
            }
            if let Some(range) = found {
                let offset = range.offset.0.saturating_add(start.0 - range.start.0);
                let page = page.or(range.backing.page);
                return (Backing { page, ..range.backing }, FileOffset(offset));
            }
        }
        (Backing { kind, name: "".into(), page }, FileOffset(0))
    }

    fn compare(
        &mut self,
        pid: Pid,
        reported_until: Nanos,
        sink: &mut dyn Sink,
    ) -> Result<(), SinkError> {
        let Some((time, snapshot)) = self.seen.take_if(|(time, _)| *time <= reported_until) else {
            return Ok(());
        };
        let before = std::mem::replace(&mut self.last_look, time);
        for (start, end) in self.known.ended(&snapshot.mapped) {
            self.known.remove(start, end);
            self.stacks.retain(|at, _| *at < start || *at >= end);
            let bytes = Bytes(end.0 - start.0);
            sink.push(Fact::RegionEnd(RegionEnd { time, pid, start, bytes }))?;
        }
        for range in &snapshot.ranges {
            for new in self.known.news(range) {
                let since = if new.replaces { time } else { before };
                self.known.insert(&new.range, since);
                let is_stack = range.backing.kind == RegionKind::Stack;
                let tid = is_stack.then_some(Tid(pid.0));
                push(since, pid, tid, &new.range, None, sink)?;
            }
        }
        self.find_stacks(pid, &snapshot, sink)
    }

    /// Reports ranges again as stacks if they hold a thread's stack pointer and lie above a guard.
    fn find_stacks(
        &mut self,
        pid: Pid,
        snapshot: &Snapshot,
        sink: &mut dyn Sink,
    ) -> Result<(), SinkError> {
        for (tid, (born, pointer)) in &self.threads {
            let Some(pointer) = *pointer else { continue };
            let Some(range) = snapshot.holding(pointer) else { continue };
            let start = range.start;
            let guarded = snapshot.guarded.binary_search(&start).is_ok();
            if !guarded || self.stacks.get(&start) == Some(tid) {
                continue;
            }
            // A neighbour that the program mapped itself, and that the kernel merged with the stack, is known with
            // another backing.
            let Some((end, since)) = self.known.holding(pointer) else { continue };
            let end = end.min(range.end);
            self.stacks.insert(start, *tid);
            let backing = Backing { kind: RegionKind::Stack, ..range.backing.clone() };
            let stack = Range { start, end, offset: FileOffset(0), backing };
            push(since.max(*born), pid, Some(*tid), &stack, None, sink)?;
        }
        Ok(())
    }
}

fn push(
    time: Nanos,
    pid: Pid,
    tid: Option<Tid>,
    range: &Range,
    stack: Option<StackId>,
    sink: &mut dyn Sink,
) -> Result<(), SinkError> {
    let Backing { kind, ref name, page } = range.backing;
    // The kernel gives an offset of pages without a file a meaning of its own.
    let has_file = matches!(kind, RegionKind::File | RegionKind::Shared | RegionKind::Huge);
    sink.push(Fact::Region(Region {
        time,
        pid,
        tid,
        start: range.start,
        bytes: Bytes(range.end.0 - range.start.0),
        kind,
        name: name.to_string(),
        file_offset: if has_file { range.offset } else { FileOffset(0) },
        page,
        stack,
    }))
}

/// The default size of huge pages (`Hugepagesize` in `/proc/meminfo`).
fn default_huge_page() -> Option<Bytes> {
    use std::sync::OnceLock;
    static SIZE: OnceLock<Option<Bytes>> = OnceLock::new();
    *SIZE.get_or_init(|| {
        let text = std::fs::read_to_string("/proc/meminfo").ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("Hugepagesize:"))?;
        let kibibytes: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
        kibibytes.checked_mul(1024).filter(|bytes| *bytes > 0).map(Bytes)
    })
}

#[cfg(test)]
mod tests;
