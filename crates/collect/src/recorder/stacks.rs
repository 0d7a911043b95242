//! Samples, faults, sampled accesses, counted events and calls into the agent, each with its stack.
//!
//! What not: unwinding (`address_space`), the tree (`stacks`).

use base::{CodeAddress, FileOffset, Pid, RemoteAddr, StackId, Tid};
use facts::{EventSample, Fact, Fault, FaultKind, MemorySample, Privilege, Sample, SinkError};

use super::{Moment, Position, Recorder, Ticked};
use crate::address_space::CopiedStack;

impl Recorder<'_> {
    /// Whether a stack can be unwound to its end through known mappings.
    pub fn can_follow(&mut self, pid: Pid, stack: CopiedStack<'_>) -> bool {
        self.spaces.get_mut(&pid).is_some_and(|space| space.unwind(stack, &mut self.cache, |_| {}))
    }

    /// The stack pointer in a thread's outermost frame, once a stack of it was unwound; `u64::MAX` where that did not reach the
    /// end.
    pub fn stack_top(&self, tid: Tid) -> Option<u64> {
        self.stack_tops.get(&tid).copied()
    }

    /// The program's own address for one in translated code; `None` for all others.
    pub fn native(&self, pid: Pid, address: RemoteAddr) -> Option<RemoteAddr> {
        self.native_addresses.as_ref()?.native(pid, address)
    }

    /// A clock sample.
    pub fn sampled(
        &mut self,
        at: Moment,
        seen: Ticked<'_>,
        position: Position<'_>,
    ) -> Result<(), SinkError> {
        if self.is_paused(at.time) {
            return Ok(());
        }
        let weight = seen.weight;
        if weight.0 == 0 {
            return self.note_registers(at, seen, position);
        }
        let stack = self.stack_at(at, position)?;
        self.note_code(at.pid, position);
        self.note_registers(at, seen, position)?;
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
        if self.is_paused(at.time) {
            return Ok(());
        }
        let stack = self.stack_at(at, position)?;
        let Moment { time, pid, tid, .. } = at;
        self.sink.push(Fact::Fault(Fault { time, pid, tid, address, stack, weight, kind }))
    }

    /// A memory access that the hardware sampled: `seen`, whose stack and privilege follow from the position.
    pub fn accessed(
        &mut self,
        seen: MemorySample,
        position: Position<'_>,
    ) -> Result<(), SinkError> {
        let MemorySample { time, pid, tid, cpu, .. } = seen;
        let stack = self.stack_at(Moment { time, pid, tid, cpu }, position)?;
        let privilege =
            if position.kernel.is_empty() { Privilege::User } else { Privilege::Kernel };
        self.sink.push(Fact::MemorySample(MemorySample { stack, privilege, ..seen }))
    }

    /// Counters had counted this much of these events since they were looked at before.
    pub fn happened(
        &mut self,
        at: Moment,
        counts: &[(u32, u64)],
        position: Position<'_>,
    ) -> Result<(), SinkError> {
        if counts.is_empty() || self.is_paused(at.time) {
            return Ok(());
        }
        let stack = self.stack_at(at, position)?;
        let privilege =
            if position.kernel.is_empty() { Privilege::User } else { Privilege::Kernel };
        let Moment { time, pid, tid, cpu } = at;
        counts.iter().filter(|(_, weight)| *weight > 0).try_for_each(|(event, weight)| {
            let (event, weight) = (*event, *weight);
            let sample = EventSample { time, pid, tid, cpu, stack, privilege, event, weight };
            self.sink.push(Fact::EventSample(sample))
        })
    }

    /// The stack of the caller of the agent, without the agent's own frames. If the process has ended or executed
    /// another program meanwhile, it is unwound in the former address space that has code where the agent was.
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
        let complete = space.unwind(stack, &mut self.cache, |frame| {
            let outside = CodeAddress::new(unknown, FileOffset(frame.address.0));
            frames.push(frame.found.unwrap_or(outside));
        });
        let inside = frames.iter().take_while(|frame| Some(frame.module) == self.agent).count();
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
        if let Some(guest) = position.guest {
            let module = self.modules.guest(guest.name(), self.sink)?;
            let frame = CodeAddress::new(module, FileOffset(position.ip.0));
            return self.stacks.intern(at.tid, &[frame], true, self.sink);
        }
        self.note_stack_pointer(at, position.user);
        self.frames.clear();
        let mut position = position;
        let mut registers;
        if self.native_addresses.is_some() {
            let native = |ip| self.native(at.pid, ip).unwrap_or(ip);
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
                // Callers are return addresses: one byte back lies inside the call, and so in the right line.
                let back = u64::from(depth > 0);
                let offset = FileOffset(address.saturating_sub(back));
                self.frames.push(CodeAddress::new(kernel, offset));
            }
        }
        let unknown = self.modules.unknown(self.sink)?;
        let frames = &mut self.frames;
        let mut push = |address: RemoteAddr, found: Option<CodeAddress>| {
            frames.push(found.unwrap_or(CodeAddress::new(unknown, FileOffset(address.0))));
        };
        let mut complete = true;
        let user_frames = &mut self.user_frames;
        user_frames.clear();
        if let Some(stack) = position.user {
            if let Some(space) = self.spaces.get_mut(&at.pid) {
                complete = space.unwind(stack, &mut self.cache, |frame| {
                    push(frame.address, frame.found);
                    user_frames.push(frame);
                });
                let outermost = user_frames.last().filter(|_| complete);
                let top = outermost.map_or(u64::MAX, |frame| frame.stack_pointer);
                self.stack_tops.insert(at.tid, top);
            }
        } else if !position.chain.is_empty() {
            let space = self.spaces.get(&at.pid);
            for (depth, address) in position.chain.iter().enumerate() {
                let address = RemoteAddr(address.saturating_sub(u64::from(depth > 0)));
                push(address, space.and_then(|space| space.find(address)));
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
