//! Moves to the CPU of a thread before it is stopped.
//!
//! What for: decides whether the thread may be stopped now, and moves us to its CPU. What not: stopping it (`visit`).

use base::{Pid, Tid};

use super::Worker;
use crate::placement::Placement;
use crate::refused::Refused;

impl Worker {
    pub(super) fn pin(&mut self) {
        self.placement.iter_mut().zip(self.cpu).for_each(|(placement, cpu)| placement.pin(cpu));
    }

    /// Decides whether a thread may be stopped now. Where that is not known yet, sleeps on its CPU to find out.
    pub(super) fn approach(&mut self, pid: Pid, tid: Tid) -> Result<(), Refused> {
        let is_quiet = self.picker.is_quiet((pid, tid))?;
        self.cpu = self.picker.cpu_of((pid, tid));
        let is_there = |(placement, cpu): (&Placement, _)| placement.is_on(cpu);
        let may_be_stopped = is_quiet || self.picker.need_not_be_watched((pid, tid));
        if may_be_stopped && self.placement.as_ref().zip(self.cpu).is_none_or(is_there) {
            return Ok(());
        }
        self.pin();
        self.picker.wait_quietly((pid, tid));
        let may_be_stopped =
            self.picker.is_quiet((pid, tid))? || self.picker.waits_harmlessly((pid, tid));
        if may_be_stopped { Ok(()) } else { Err(Refused::WaitsOften) }
    }
}
