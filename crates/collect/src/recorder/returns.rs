//! Stacks of exact mode: copied from a return on, or given as return addresses; and the rules by which the agent
//! unwinds.
//!
//! What not: where they come from (`heap::exact`). If a process has ended or executed another program meanwhile, a
//! former address space has the code.

use base::{CodeAddress, FileOffset, Nanos, Pid, RemoteAddr, StackId};
use facts::SinkError;

use super::{AddressSpace, Moment, Recorder, UnwindCache};
use crate::address_space::{CopiedStack, ReturnRule};

impl Recorder<'_> {
    /// Whether code at `at` is known, after the mappings of the process were read anew if it was not.
    pub fn know_return(&mut self, now: Nanos, pid: Pid, at: RemoteAddr) -> Result<bool, SinkError> {
        let inside = RemoteAddr(at.0.saturating_sub(1));
        if self.locate(pid, inside).is_some() {
            return Ok(true);
        }
        self.read_maps(now, pid)?;
        Ok(self.locate(pid, inside).is_some())
    }

    /// The stack of a copy that begins right after a return; `seen` gets each return address.
    pub fn stack_from_return(
        &mut self,
        at: Moment,
        stack: CopiedStack<'_>,
        mut seen: impl FnMut(RemoteAddr),
    ) -> Result<Option<StackId>, SinkError> {
        let ip = RemoteAddr(stack.registers[sys::perf::USER_INSTRUCTION_POINTER]);
        let mut frames = std::mem::take(&mut self.frames);
        frames.clear();
        let complete = self.with_code_at(at.pid, ip, |space, cache| {
            space.unwind_returns(stack, cache, |address, found| {
                frames.extend(found);
                seen(address);
            })
        });
        let id = self.stacks.intern(at.tid, &frames, complete.unwrap_or(false), self.sink);
        self.frames = frames;
        id
    }

    /// The stack of these return addresses, innermost first.
    pub fn stack_of_returns(
        &mut self,
        at: Moment,
        addresses: &[u64],
        complete: bool,
    ) -> Result<Option<StackId>, SinkError> {
        let unknown = self.modules.unknown(self.sink)?;
        let frames: Vec<_> = addresses
            .iter()
            .map(|address| {
                let inside = RemoteAddr(address.saturating_sub(1));
                let outside = CodeAddress::new(unknown, FileOffset(inside.0));
                self.locate(at.pid, inside).unwrap_or(outside)
            })
            .collect();
        self.stacks.intern(at.tid, &frames, complete, self.sink)
    }

    /// The rule for a return address; `None` when there is no simple one.
    pub fn return_rule(&mut self, pid: Pid, at: RemoteAddr) -> Option<ReturnRule> {
        let known = self.with_code_at(pid, at, |space, cache| space.return_rule(at, cache));
        known.unwrap_or(Some(ReturnRule::NoCode))
    }

    fn with_code_at<T>(
        &mut self,
        pid: Pid,
        at: RemoteAddr,
        work: impl FnOnce(&mut AddressSpace, &mut UnwindCache) -> T,
    ) -> Option<T> {
        let inside = RemoteAddr(at.0.saturating_sub(1));
        let former = self.former_spaces.iter_mut().rev().filter(|(of, _)| *of == pid);
        let mut spaces =
            self.spaces.get_mut(&pid).into_iter().chain(former.map(|(_, space)| space));
        let space = spaces.find(|space| space.find(inside).is_some())?;
        Some(work(space, &mut self.cache))
    }
}
