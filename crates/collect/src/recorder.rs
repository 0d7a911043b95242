//! Turns samples into facts: tracks processes and their mappings, unwinds, interns stacks.
//!
//! What for: the perf sampler and the ptrace sampler learn of events in different ways. All later steps are the same
//! and are here once: address spaces across fork and exec, the stack tree, facts. What not: system calls, except
//! reading `/proc/PID/maps` of a process whose start was not observed.

mod regions;
mod registers;
mod returns;
mod seen_code;
mod stacks;
mod threads;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use base::{
    CodeAddress, CpuId, FileOffset, IndexMap, ModuleId, Nanos, Pid, RemoteAddr, ThreadId, Tid,
};
use facts::{Fact, GENERAL_REGISTERS, Lost, LostSource, Mapping, Sink, SinkError};

use crate::address_space::{AddressSpace, CopiedStack, UnwindCache, UserFrame};
use crate::bursts::{NativeAddresses, is_our_mapping};
use crate::modules::{HeldFiles, ModuleTable, Recorded};
use crate::regions::Regions;
pub use crate::regions::{MappedBy, MappingCall};
use crate::stacks::StackTree;
use tracee::maps::{self, MapsLine};

/// The position of a thread at a moment.
#[derive(Clone, Copy)]
pub struct Position<'a> {
    /// Addresses in the kernel, innermost first; empty when the thread ran its own code.
    pub kernel: &'a [u64],
    /// The instruction pointer that the sample carries: in the kernel if `kernel` is not empty.
    pub ip: RemoteAddr,
    /// User registers and stack, where the source has them.
    pub user: Option<CopiedStack<'a>>,
    /// Else the user call chain, where somebody else unwound it: an instruction pointer, then return addresses.
    pub chain: &'a [u64],
    /// The thread ran a virtual machine: `ip` is an address of its guest, and nothing of the others counts.
    pub guest: Option<Guest>,
}

/// What of a virtual machine ran.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Guest {
    /// Its kernel.
    Kernel,
    /// A program in it.
    Program,
}

impl Guest {
    /// The name of its code: nobody here knows its address spaces.
    fn name(self) -> &'static str {
        match self {
            Guest::Kernel => "[guest kernel]",
            Guest::Program => "[guest program]",
        }
    }
}

/// What a tick of the clock carries in addition.
#[derive(Clone, Copy)]
pub struct Ticked<'a> {
    /// CPU time that the sample stands for; 0 for one that is taken for its registers only.
    pub weight: Nanos,
    /// CPU time of the thread so far, counted from any moment, where the source has it.
    pub cpu_time: Option<Nanos>,
    /// General registers by their number in the encoding, of 64-bit code, where the source has them.
    pub general: Option<&'a [u64; GENERAL_REGISTERS]>,
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
    /// The file, or the kernel's name for memory without one.
    pub name: &'a str,
}

/// Whether a file is our agent, preloaded or brought into a running process, by its name; a hash of its content
/// follows the name.
pub(crate) fn is_our_agent(path: &str) -> bool {
    path.contains("/libfathom_agent-") || path.starts_with("/memfd:libfathom_agent-")
}

/// The state behind a recording.
pub struct Recorder<'s> {
    sink: &'s mut dyn Sink,
    modules: ModuleTable,
    stacks: StackTree,
    spaces: BTreeMap<Pid, AddressSpace>,
    /// Address spaces of processes that ended or executed another program lately: observations of bursts in them may
    /// still arrive.
    former_spaces: VecDeque<(Pid, AddressSpace)>,
    processes_seen: BTreeSet<Pid>,
    /// Living threads with their names, and the time since which they are known to live.
    threads: BTreeMap<ThreadId, (String, Nanos)>,
    /// When threads ended lately.
    ends: BTreeMap<ThreadId, Nanos>,
    cache: UnwindCache,
    /// The library that we preloaded, once a process has it.
    agent: Option<ModuleId>,
    /// The file of an agent that was brought into a process, where its copy has no path.
    agent_file: Option<String>,
    /// Native addresses of threads that run translated code.
    native_addresses: Option<NativeAddresses>,
    frames: Vec<CodeAddress>,
    /// The user frames of the last stack that was unwound.
    user_frames: Vec<UserFrame>,
    /// See [`Recorder::stack_top`].
    stack_tops: IndexMap<Tid, u64>,
    /// Mapped memory, where that is wanted.
    regions: Option<Regions>,
    /// Code at clock samples, not handed over yet.
    seen_code: seen_code::SeenCode,
    /// Registers at clock samples, not written yet.
    registers: registers::Pieces,
    /// When nothing was to be observed: beginnings and ends, the last perhaps still open.
    pauses: Vec<(Nanos, Nanos)>,
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
            native_addresses: None,
            frames: Vec::new(),
            user_frames: Vec::new(),
            stack_tops: IndexMap::default(),
            regions: None,
            seen_code: seen_code::SeenCode::default(),
            registers: registers::Pieces::default(),
            pauses: Vec::new(),
        }
    }

    /// From now on, samples in translated code count as samples of the original code.
    pub fn follow_bursts(&mut self, native_addresses: NativeAddresses) {
        self.native_addresses = Some(native_addresses);
    }

    /// Declares that a process has a copy of this file in memory as the agent.
    pub fn expect_agent(&mut self, file: &std::path::Path) {
        self.agent_file = file.to_str().map(str::to_owned);
    }

    /// Declares that the files of modules are not those of running processes.
    pub fn recorded_before(&mut self, recorded: Recorded) {
        self.modules.recorded_before(recorded);
    }

    /// The files of the modules that were seen.
    pub fn take_files(&mut self) -> HeldFiles {
        self.modules.take_files()
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

    /// Writes what was recorded so far, so that it survives our death.
    pub fn flush(&mut self) -> Result<(), SinkError> {
        self.tell_registers()?;
        self.sink.flush()
    }

    /// Passes on a fact that needs no translation.
    pub fn push(&mut self, fact: Fact) -> Result<(), SinkError> {
        let time = match &fact {
            Fact::Wait(one) => Some(one.time),
            Fact::Wake(one) => Some(one.time),
            Fact::ThreadTime(one) => Some(one.time),
            Fact::Concurrency(one) => Some(one.time),
            _ => None,
        };
        if time.is_some_and(|time| self.is_paused(time)) {
            return Ok(());
        }
        self.sink.push(fact)
    }

    /// From this time on nothing is observed; later observations of sources are dropped.
    pub fn pause(&mut self, time: Nanos) {
        self.pauses.push((time, Nanos(u64::MAX)));
    }

    /// Until this time.
    pub fn resume(&mut self, time: Nanos) {
        if let Some(last) = self.pauses.last_mut() {
            last.1 = time;
        }
    }

    /// Whether there was such a time.
    #[must_use]
    pub fn has_paused(&self) -> bool {
        !self.pauses.is_empty()
    }

    fn is_paused(&self, time: Nanos) -> bool {
        let next = self.pauses.partition_point(|(start, _)| *start <= time);
        next.checked_sub(1).is_some_and(|at| time < self.pauses[at].1)
    }

    /// Processes that are alive as far as we know.
    pub fn processes(&self) -> impl Iterator<Item = Pid> + '_ {
        self.spaces.keys().copied()
    }

    /// A process's threads that are alive as far as we know.
    pub fn threads_of(&self, pid: Pid) -> Vec<Tid> {
        self.threads.range(ThreadId::all_of(pid)).map(|(thread, _)| thread.tid).collect()
    }

    /// The module that an address of a process lies in, and where in it.
    #[must_use]
    pub fn locate(&self, pid: Pid, address: RemoteAddr) -> Option<CodeAddress> {
        let former = self.former_spaces.iter().rev().filter(|(of, _)| *of == pid);
        self.spaces
            .get(&pid)
            .into_iter()
            .chain(former.map(|(_, space)| space))
            .find_map(|space| space.find(address))
    }

    /// The same; code in no known mapping gets the module for unknown code.
    pub fn locate_or_unknown(
        &mut self,
        pid: Pid,
        address: RemoteAddr,
    ) -> Result<CodeAddress, SinkError> {
        match self.locate(pid, address) {
            Some(found) => Ok(found),
            None => Ok(CodeAddress::new(self.modules.unknown(self.sink)?, FileOffset(address.0))),
        }
    }

    /// An executable mapping appeared.
    pub fn mapped(&mut self, time: Nanos, pid: Pid, new: NewMapping<'_>) -> Result<(), SinkError> {
        // Translated code is not code of the program.
        if is_our_mapping(new.name) {
            return Ok(());
        }
        let agent = is_our_agent(new.name);
        let name = self.agent_file.as_deref().filter(|_| agent).unwrap_or(new.name);
        let range = new.start..new.end;
        let module = self.modules.of_mapping(pid, name, &range, self.sink)?;
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

    /// Reads `/proc/PID/maps`: for processes that ran before us, and where mappings are not announced. A process that
    /// is gone has no maps, which is not an error.
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

    /// Records were lost.
    pub fn lost(&mut self, time: Nanos, source: LostSource, count: u64) -> Result<(), SinkError> {
        if count == 0 {
            return Ok(());
        }
        self.sink.push(Fact::Lost(Lost { time, source, count }))
    }
}
