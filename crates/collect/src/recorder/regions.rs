//! Mapped memory, where it is recorded: what the recorder passes on to [`Regions`].
//!
//! What not: finding the differences (`regions`).

use base::{Bytes, Nanos, Pid, RemoteAddr};
use facts::SinkError;

use super::{MappingCall, Moment, Recorder};
use crate::address_space::CopiedStack;
use crate::regions::Regions;

impl Recorder<'_> {
    /// Records mapped memory from now on.
    pub fn follow_regions(&mut self) {
        self.regions = Some(Regions::default());
    }

    /// When the next reading of mapped memory is due.
    #[must_use]
    pub fn regions_due(&self) -> Option<Nanos> {
        self.regions.as_ref().and_then(Regions::due)
    }

    /// Reads mapped memory if that is due. The agent has reported all calls before `reported_until`.
    pub fn look_at_regions(&mut self, now: Nanos, reported_until: Nanos) -> Result<(), SinkError> {
        self.regions.as_mut().map_or(Ok(()), |regions| regions.look(now, reported_until, self.sink))
    }

    /// Records the last reading of mapped memory, and the pages of processes that still run.
    pub fn finish_regions(&mut self, now: Nanos) -> Result<(), SinkError> {
        self.regions.as_mut().map_or(Ok(()), |regions| regions.finish(now, self.sink))
    }

    /// The program mapped memory, as the agent tells.
    pub fn region_mapped(&mut self, call: MappingCall) -> Result<(), SinkError> {
        self.regions.as_mut().map_or(Ok(()), |regions| regions.mapped(call, self.sink))
    }

    /// Number of reported calls that mapped memory but became no regions, because there were too many.
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

    pub(super) fn note_stack_pointer(&mut self, at: Moment, stack: Option<CopiedStack<'_>>) {
        if let (Some(regions), Some(stack)) = (&mut self.regions, stack) {
            let pointer = stack.registers[sys::perf::USER_STACK_POINTER];
            regions.stack_pointer(at.pid, at.tid, RemoteAddr(pointer));
        }
    }
}
