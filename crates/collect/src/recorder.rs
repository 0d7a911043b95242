//! Turns what samplers see into facts: follows processes and their mappings, unwinds, interns stacks.
//!
//! What for: the perf sampler and the ptrace sampler differ in how they learn of things; what follows from it
//! (address spaces over fork and exec, stack tree, facts) is the same and stands here once.
//! What not: no system calls except reading `/proc/PID/maps` of a process that we did not see start.

mod returns;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use base::{Bytes, CpuId, FileOffset, ModuleId, Nanos, Pid, RemoteAddr, StackId, Tid};
use facts::{
    Fact, Fault, FaultKind, Lost, LostSource, Mapping, Privilege, Sample, Sink, SinkError,
    ThreadEvent, ThreadEventKind,
};

use burst::Whereabouts;

use crate::address_space::{AddressSpace, CopiedStack, UnwindCache};
use crate::modules::ModuleTable;
use crate::regions::Regions;
pub use crate::regions::{By, Told};
use crate::stacks::StackTree;
use tracee::maps::{self, MapsLine};

/// Of a thread that lived shortly, a second source may tell the start when its end is told already: so much later at most.
const LATE: Nanos = Nanos(10_000_000_000);
/// Older ends are forgotten when there are so many.
const ENDS: usize = 100_000;

/// Where a thread was at a moment.
#[derive(Clone, Copy)]
pub struct Position<'a> {
    /// Addresses in the kernel, innermost first; empty when the thread ran its own code.
    pub kernel: &'a [u64],
    /// The instruction pointer that the sample carries: in the kernel if `kernel` is not empty.
    pub ip: RemoteAddr,
    /// User registers and stack, when they could be had.
    pub user: Option<CopiedStack<'a>>,
}

/// Which thread, when, where.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moment {
    /// When, counted from the start of the recording.
    pub time: Nanos,
    /// The process.
    pub pid: Pid,
    /// The thread.
    pub tid: Tid,
    /// The CPU, where known.
    pub cpu: Option<CpuId>,
}

/// An executable mapping as announced by the kernel.
#[derive(Clone, Copy, Debug)]
pub struct NewMapping<'a> {
    /// First address.
    pub start: RemoteAddr,
    /// First address behind it.
    pub end: RemoteAddr,
    /// Offset of `start` in the file.
    pub offset: FileOffset,
    /// The file, or the kernel's word for what is none.
    pub name: &'a str,
}

/// Whether a file is the library that we preload, or bring into a process that runs, by its name; a hash of its content
/// follows there.
pub(crate) fn is_our_agent(path: &str) -> bool {
    path.contains("/libfathom_agent-") || path.starts_with("/memfd:libfathom_agent-")
}

/// The state behind a recording.
pub struct Recorder<'s> {
    sink: &'s mut dyn Sink,
    modules: ModuleTable,
    stacks: StackTree,
    spaces: BTreeMap<Pid, AddressSpace>,
    /// Of processes that ended or executed another program lately: what bursts saw of them may still be on its way.
    former_spaces: VecDeque<(Pid, AddressSpace)>,
    processes_seen: BTreeSet<Pid>,
    /// Living threads with their names, and since when they are known to live.
    threads: BTreeMap<(Pid, Tid), (String, Nanos)>,
    /// When threads ended lately.
    ends: BTreeMap<(Pid, Tid), Nanos>,
    cache: UnwindCache,
    /// The library that we preloaded, once a process has it.
    agent: Option<ModuleId>,
    /// The file of the library that was brought into a process, whose own copy has no path.
    agent_file: Option<String>,
    /// Native addresses of threads that are in translated code.
    whereabouts: Option<Whereabouts>,
    frames: Vec<(ModuleId, FileOffset)>,
    /// Mapped memory, where that is wanted.
    regions: Option<Regions>,
}

impl<'s> Recorder<'s> {
    /// Starts with nothing known.
    pub fn new(sink: &'s mut dyn Sink) -> Recorder<'s> {
        Recorder {
            sink,
            modules: ModuleTable::default(),
            stacks: StackTree::default(),
            spaces: BTreeMap::new(),
            former_spaces: VecDeque::new(),
            processes_seen: BTreeSet::new(),
            threads: BTreeMap::new(),
            ends: BTreeMap::new(),
            cache: UnwindCache::default(),
            agent: None,
            agent_file: None,
            whereabouts: None,
            frames: Vec::new(),
            regions: None,
        }
    }

    /// Samples in translated code are from now on taken for samples of the code that was translated.
    pub fn follow_bursts(&mut self, whereabouts: Whereabouts) {
        self.whereabouts = Some(whereabouts);
    }

    /// A process has a copy of this file in memory as the agent.
    pub fn expect_agent(&mut self, file: &std::path::Path) {
        self.agent_file = file.to_str().map(str::to_owned);
    }

    /// Mapped memory is from now on recorded too.
    pub fn follow_regions(&mut self) {
        self.regions = Some(Regions::default());
    }

    /// When mapped memory is to be looked at next.
    #[must_use]
    pub fn regions_due(&self) -> Option<Nanos> {
        self.regions.as_ref().and_then(Regions::due)
    }

    /// Looks at mapped memory where that is due. Calls of the program before `told_until` were all told.
    pub fn look_at_regions(&mut self, now: Nanos, told_until: Nanos) -> Result<(), SinkError> {
        self.regions.as_mut().map_or(Ok(()), |regions| regions.look(now, told_until, self.sink))
    }

    /// Records what was seen at the last look at mapped memory, and looks at the pages of what still runs.
    pub fn finish_regions(&mut self, now: Nanos) -> Result<(), SinkError> {
        self.regions.as_mut().map_or(Ok(()), |regions| regions.finish(now, self.sink))
    }

    /// The program mapped memory, as the agent tells.
    pub fn region_mapped(&mut self, told: Told) -> Result<(), SinkError> {
        self.regions.as_mut().map_or(Ok(()), |regions| regions.mapped(told, self.sink))
    }

    /// Calls that mapped memory, as the agent told, and that are no regions: there were too many.
    pub fn regions_left_out(&self) -> u64 {
        self.regions.as_ref().map_or(0, Regions::left_out)
    }

    /// The program unmapped memory, as the agent tells.
    pub fn region_unmapped(
        &mut self,
        time: Nanos,
        pid: Pid,
        start: RemoteAddr,
        bytes: Bytes,
    ) -> Result<(), SinkError> {
        let Some(regions) = &mut self.regions else { return Ok(()) };
        regions.unmapped(time, pid, start, bytes, self.sink)
    }

    fn note_stack_pointer(&mut self, at: Moment, stack: Option<CopiedStack<'_>>) {
        if let (Some(regions), Some(stack)) = (&mut self.regions, stack) {
            let pointer = stack.registers[sys::perf::USER_STACK_POINTER];
            regions.stack_pointer(at.pid, at.tid, RemoteAddr(pointer));
        }
    }

    /// How many processes were seen so far, ended ones included.
    #[must_use]
    pub fn processes_seen(&self) -> usize {
        self.processes_seen.len()
    }

    /// Whether this process was seen, ended ones included.
    #[must_use]
    pub fn has_seen(&self, pid: Pid) -> bool {
        self.processes_seen.contains(&pid)
    }

    /// Whether a stack leads to its end through known mappings.
    pub fn can_follow(&mut self, pid: Pid, stack: CopiedStack<'_>) -> bool {
        self.spaces
            .get_mut(&pid)
            .is_some_and(|space| space.unwind(stack, &mut self.cache, |_, _| {}))
    }

    /// Makes what was recorded survive our death.
    pub fn flush(&mut self) -> Result<(), SinkError> {
        self.sink.flush()
    }

    /// Takes a fact that needs no translation.
    pub fn push(&mut self, fact: Fact) -> Result<(), SinkError> {
        self.sink.push(fact)
    }

    /// Processes that are alive as far as we know.
    pub fn processes(&self) -> impl Iterator<Item = Pid> + '_ {
        self.spaces.keys().copied()
    }

    /// The module that an address of a process lies in, and where in it.
    #[must_use]
    pub fn locate(&self, pid: Pid, address: RemoteAddr) -> Option<(ModuleId, FileOffset)> {
        let former = self.former_spaces.iter().rev().filter(|(of, _)| *of == pid);
        self.spaces
            .get(&pid)
            .into_iter()
            .chain(former.map(|(_, space)| space))
            .find_map(|space| space.find(address))
    }

    fn forget_space(&mut self, pid: Pid) {
        /// Enough for what ends within a round of a session.
        const MOST_FORMER: usize = 32;
        if let Some(space) = self.spaces.remove(&pid) {
            self.former_spaces.push_back((pid, space));
            if self.former_spaces.len() > MOST_FORMER {
                self.former_spaces.pop_front();
            }
        }
    }

    /// The same, where code that no known mapping explains gets the module for that.
    pub fn locate_or_unknown(
        &mut self,
        pid: Pid,
        address: RemoteAddr,
    ) -> Result<(ModuleId, FileOffset), SinkError> {
        match self.locate(pid, address) {
            Some(found) => Ok(found),
            None => Ok((self.modules.unknown(self.sink)?, FileOffset(address.0))),
        }
    }

    /// A thread was born, or is there as we come.
    pub fn thread_started(
        &mut self,
        time: Nanos,
        pid: Pid,
        tid: Tid,
        name: &str,
    ) -> Result<(), SinkError> {
        let ended = self.ends.get(&(pid, tid)).is_some_and(|end| time <= *end);
        if ended || self.threads.contains_key(&(pid, tid)) {
            return Ok(());
        }
        self.threads.insert((pid, tid), (name.to_owned(), time));
        if let Some(regions) = &mut self.regions {
            regions.thread_began(time, pid, tid);
        }
        self.spaces.entry(pid).or_default();
        self.processes_seen.insert(pid);
        self.thread_event(time, pid, tid, ThreadEventKind::Start, name)
    }

    /// A thread was born by `creator`, whose name it carries until it takes another.
    pub fn thread_created(
        &mut self,
        time: Nanos,
        creator: (Pid, Tid),
        pid: Pid,
        tid: Tid,
    ) -> Result<(), SinkError> {
        let name = self.threads.get(&creator).map(|(name, _)| name.clone()).unwrap_or_default();
        self.thread_started(time, pid, tid, &name)
    }

    /// `parent` forked `child`: the child begins with a copy of its address space.
    pub fn process_forked(&mut self, parent: Pid, child: Pid) {
        if let Some(space) = self.spaces.get(&parent) {
            let copy = space.clone();
            self.spaces.insert(child, copy);
        }
    }

    /// The process executes another program: its old mappings are gone.
    pub fn executed(
        &mut self,
        time: Nanos,
        pid: Pid,
        tid: Tid,
        name: &str,
    ) -> Result<(), SinkError> {
        self.forget_space(pid);
        if let Some(regions) = &mut self.regions {
            regions.executed(time, pid, self.sink)?;
        }
        self.spaces.insert(pid, AddressSpace::default());
        // Observing a whole machine, a process may come between our list of them and the first record of it.
        if self.processes_seen.insert(pid) {
            self.thread_event(time, pid, Tid(pid.0), ThreadEventKind::Start, name)?;
        }
        // The thread that executes becomes the first one, and all others are gone: the kernel tells of their ends before. Who is
        // left was found by a second source, and the time of its start is a guess, or behind what is told here.
        let process = (pid, Tid(i32::MIN))..=(pid, Tid(i32::MAX));
        let others = self
            .threads
            .range(process)
            .filter(|((_, other), (_, since))| *other != tid && other.0 != pid.0 && *since <= time);
        for id in others.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.threads.remove(&id);
            self.thread_event(time, pid, id.1, ThreadEventKind::Exit, "")?;
        }
        if tid.0 != pid.0 {
            self.threads.remove(&(pid, tid));
        }
        let first = self.threads.entry((pid, Tid(pid.0))).or_insert((String::new(), time));
        name.clone_into(&mut first.0);
        self.thread_event(time, pid, tid, ThreadEventKind::Exec, name)
    }

    /// The thread changed its name.
    pub fn renamed(
        &mut self,
        time: Nanos,
        pid: Pid,
        tid: Tid,
        name: &str,
    ) -> Result<(), SinkError> {
        self.thread_started(time, pid, tid, name)?;
        self.threads.entry((pid, tid)).or_insert((String::new(), time)).0 = name.to_owned();
        self.thread_event(time, pid, tid, ThreadEventKind::Rename, name)
    }

    /// The thread ended; with its last thread the process is forgotten.
    pub fn thread_ended(&mut self, time: Nanos, pid: Pid, tid: Tid) -> Result<(), SinkError> {
        if self.threads.remove(&(pid, tid)).is_none() {
            return Ok(());
        }
        if self.threads.range((pid, Tid(i32::MIN))..=(pid, Tid(i32::MAX))).next().is_none() {
            self.forget_space(pid);
            self.regions.iter_mut().for_each(|regions| regions.ended(pid));
        }
        self.regions.iter_mut().for_each(|regions| regions.thread_ended(pid, tid));
        if self.ends.len() >= ENDS {
            self.ends.retain(|_, end| *end + LATE >= time);
        }
        self.ends.insert((pid, tid), time);
        self.thread_event(time, pid, tid, ThreadEventKind::Exit, "")
    }

    fn thread_event(
        &mut self,
        time: Nanos,
        pid: Pid,
        tid: Tid,
        kind: ThreadEventKind,
        name: &str,
    ) -> Result<(), SinkError> {
        self.sink.push(Fact::ThreadEvent(ThreadEvent {
            time,
            pid,
            tid,
            kind,
            name: name.to_owned(),
        }))
    }

    /// An executable mapping appeared.
    pub fn mapped(&mut self, time: Nanos, pid: Pid, new: NewMapping<'_>) -> Result<(), SinkError> {
        // Translated code is no code of the program.
        if burst::is_our_mapping(new.name) {
            return Ok(());
        }
        let agent = is_our_agent(new.name);
        let name = self.agent_file.as_deref().filter(|_| agent).unwrap_or(new.name);
        let module = self.modules.of_mapping(pid, name, self.sink)?;
        if agent {
            self.agent = Some(module.id);
        }
        let space = self.spaces.entry(pid).or_default();
        if space.knows(new.start, new.end, module.id) || new.start >= new.end {
            return Ok(());
        }
        space.map(new.start, new.end, new.offset, &module);
        self.sink.push(Fact::Mapping(Mapping {
            time,
            pid,
            start: new.start,
            end: new.end,
            file_offset: new.offset,
            module: module.id,
        }))
    }

    /// Reads `/proc/PID/maps`: for processes that ran before we came, and where mappings are not announced.
    /// A process that is gone has no maps, which is no error.
    pub fn read_maps(&mut self, time: Nanos, pid: Pid) -> Result<(), SinkError> {
        let text = maps::read(pid);
        for line in text.lines().filter_map(maps::parse_line) {
            let MapsLine { start, end, executable, offset, name, .. } = line;
            if executable {
                self.mapped(time, pid, NewMapping { start, end, offset, name })?;
            }
        }
        Ok(())
    }

    /// A clock sample.
    pub fn sampled(
        &mut self,
        at: Moment,
        weight: Nanos,
        position: Position<'_>,
    ) -> Result<(), SinkError> {
        let stack = self.stack_at(at, position)?;
        let privilege =
            if position.kernel.is_empty() { Privilege::User } else { Privilege::Kernel };
        let Moment { time, pid, tid, cpu } = at;
        self.sink.push(Fact::Sample(Sample { time, pid, tid, cpu, weight, stack, privilege }))
    }

    /// A page fault on `address`.
    pub fn faulted(
        &mut self,
        at: Moment,
        kind: FaultKind,
        address: RemoteAddr,
        weight: u64,
        position: Position<'_>,
    ) -> Result<(), SinkError> {
        let stack = self.stack_at(at, position)?;
        let Moment { time, pid, tid, .. } = at;
        self.sink.push(Fact::Fault(Fault { time, pid, tid, address, stack, weight, kind }))
    }

    /// Records were lost.
    pub fn lost(&mut self, time: Nanos, source: LostSource, count: u64) -> Result<(), SinkError> {
        if count == 0 {
            return Ok(());
        }
        self.sink.push(Fact::Lost(Lost { time, source, count }))
    }

    /// The stack of whoever called into the agent, whose own frames are left out. The process may have ended or executed
    /// another program meanwhile: then it is the address space that has code where the agent was.
    pub fn caller_of_agent(
        &mut self,
        at: Moment,
        stack: CopiedStack<'_>,
    ) -> Result<Option<StackId>, SinkError> {
        self.note_stack_pointer(at, Some(stack));
        let unknown = self.modules.unknown(self.sink)?;
        let ip = RemoteAddr(stack.registers[sys::perf::USER_INSTRUCTION_POINTER]);
        let former = self.former_spaces.iter_mut().rev().filter(|(of, _)| *of == at.pid);
        let mut spaces =
            self.spaces.get_mut(&at.pid).into_iter().chain(former.map(|(_, space)| space));
        let Some(space) = spaces.find(|space| space.find(ip).is_some()) else { return Ok(None) };
        let mut frames = std::mem::take(&mut self.frames);
        frames.clear();
        let complete = space.unwind(stack, &mut self.cache, |address, found| {
            frames.push(found.unwrap_or((unknown, FileOffset(address.0))));
        });
        let inside = frames.iter().take_while(|(module, _)| Some(*module) == self.agent).count();
        let id = self.stacks.intern(at.tid, &frames[inside..], complete, self.sink);
        self.frames = frames;
        id
    }

    /// The stack of a thread that is about to leave its CPU.
    pub fn stack_of(
        &mut self,
        at: Moment,
        position: Position<'_>,
    ) -> Result<Option<StackId>, SinkError> {
        self.stack_at(at, position)
    }

    fn stack_at(
        &mut self,
        at: Moment,
        position: Position<'_>,
    ) -> Result<Option<StackId>, SinkError> {
        self.note_stack_pointer(at, position.user);
        self.frames.clear();
        let mut position = position;
        let mut registers;
        if let Some(whereabouts) = &self.whereabouts {
            let native = |ip| whereabouts.native(at.pid, ip).unwrap_or(ip);
            if let Some(stack) = &mut position.user {
                registers = *stack.registers;
                let ip = &mut registers[sys::perf::USER_INSTRUCTION_POINTER];
                *ip = native(RemoteAddr(*ip)).0;
                stack.registers = &registers;
            }
            if position.kernel.is_empty() {
                position.ip = native(position.ip);
            }
        }
        if !position.kernel.is_empty() {
            let kernel = self.modules.kernel(self.sink)?;
            for (depth, address) in position.kernel.iter().enumerate() {
                // Callers are return addresses: one byte back lies inside the call.
                let back = u64::from(depth > 0);
                self.frames.push((kernel, FileOffset(address.saturating_sub(back))));
            }
        }
        let unknown = self.modules.unknown(self.sink)?;
        let frames = &mut self.frames;
        let mut push = |address: RemoteAddr, found: Option<(ModuleId, FileOffset)>| {
            frames.push(found.unwrap_or((unknown, FileOffset(address.0))));
        };
        let mut complete = true;
        if let Some(stack) = position.user {
            if let Some(space) = self.spaces.get_mut(&at.pid) {
                complete = space.unwind(stack, &mut self.cache, push);
            }
        } else if position.kernel.is_empty() {
            push(position.ip, self.spaces.get(&at.pid).and_then(|space| space.find(position.ip)));
            complete = false;
        }
        let frames = std::mem::take(&mut self.frames);
        let id = self.stacks.intern(at.tid, &frames, complete, self.sink);
        self.frames = frames;
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_that_is_told_behind_the_end_is_none() {
        let mut facts: Vec<Fact> = Vec::new();
        let mut recorder = Recorder::new(&mut facts);
        let (pid, tid) = (Pid(7), Tid(8));
        recorder.thread_started(Nanos(10), pid, tid, "short").unwrap();
        recorder.thread_ended(Nanos(20), pid, tid).unwrap();
        recorder.thread_started(Nanos(5), pid, tid, "short").unwrap();
        recorder.thread_started(Nanos(20), pid, tid, "short").unwrap();
        // The id is given again.
        recorder.thread_started(Nanos(30), pid, tid, "next").unwrap();
        let times = facts.iter().map(|fact| match fact {
            Fact::ThreadEvent(event) => event.time.0,
            _ => 0,
        });
        assert_eq!(times.collect::<Vec<_>>(), [10, 20, 30]);
    }
}
