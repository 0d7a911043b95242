//! Prepares to stop a thread.
//!
//! What for: decides whether it may be stopped now, and moves the tracer to its CPU or off it. What not: stopping it (`visit`).

use base::ThreadId;

use super::Worker;
use crate::placement::{Placement, Side};
use crate::refused::Refused;

impl Worker {
    /// The side of the thread's CPU that we take.
    fn side(&self) -> Side {
        if self.has_free_cpu() { Side::Other } else { Side::Same }
    }

    /// Takes it.
    pub(super) fn pin(&mut self) {
        self.pin_to(self.side());
    }

    fn pin_to(&mut self, side: Side) {
        let pin = |(placement, cpu): (&mut Placement, _)| placement.pin(cpu, side);
        self.placement.iter_mut().zip(self.cpu).for_each(pin);
    }

    /// Decides whether a thread may be stopped now. Where that is not known yet, sleeps to find out, and also after a move. A
    /// set-up is a dozen calls, and as many stops: they are fastest on the thread's CPU.
    pub(super) fn approach(&mut self, thread: ThreadId, sets_up: bool) -> Result<(), Refused> {
        let is_quiet = self.picker.is_quiet(thread)?;
        self.cpu = self.picker.cpu_of(thread);
        let side = if sets_up { Side::Same } else { self.side() };
        let is_there = |(placement, cpu): (&Placement, _)| placement.is(cpu, side);
        let is_placed = self.placement.as_ref().zip(self.cpu).is_none_or(is_there);
        let may_be_stopped = is_quiet || self.picker.need_not_be_watched(thread);
        if may_be_stopped && is_placed {
            return Ok(());
        }
        self.pin_to(side);
        self.picker.wait_quietly(thread);
        let may_be_stopped = self.picker.is_quiet(thread)? || self.picker.waits_harmlessly(thread);
        if may_be_stopped { Ok(()) } else { Err(Refused::WaitsOften) }
    }
}
