//! Coming near a thread before it is stopped.
//!
//! What for: whether it may be stopped now, and from its own CPU. What not: stopping it (`visit`).

use base::{Pid, Tid};

use super::Worker;
use crate::near::Near;
use crate::refused::Refused;

impl Worker {
    pub(super) fn go_near(&mut self) {
        self.near.iter_mut().zip(self.cpu).for_each(|(near, cpu)| near.go(cpu));
    }

    /// Finds out whether a thread may be stopped now, and sleeps on its CPU for that where it is not known yet.
    pub(super) fn approach(&mut self, pid: Pid, tid: Tid) -> Result<(), Refused> {
        let is_quiet = self.picker.is_quiet((pid, tid))?;
        self.cpu = self.picker.cpu_of((pid, tid));
        let is_near = |(near, cpu): (&Near, _)| near.is_at(cpu);
        let may_be_stopped = is_quiet || self.picker.need_not_be_watched((pid, tid));
        if may_be_stopped && self.near.as_ref().zip(self.cpu).is_none_or(is_near) {
            return Ok(());
        }
        self.go_near();
        self.picker.wait_quietly((pid, tid));
        let may_be_stopped =
            self.picker.is_quiet((pid, tid))? || self.picker.waits_harmlessly((pid, tid));
        if may_be_stopped { Ok(()) } else { Err(Refused::WaitsOften) }
    }
}
