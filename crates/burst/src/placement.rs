//! Placement of the tracing thread on the CPU of the thread that it stops next.
//!
//! What for: a stop from another CPU takes two wake-ups, some 40 us each in a virtual machine or next to other work.
//! From the thread's own CPU a stop is two context switches, some 6 us each (`bench/stop_parts.py`). What not: work
//! for which the stopped thread does not wait; it would keep the thread from its CPU.
//!
//! Hazard: a thread that moves while awake waits for its turn on the new CPU, up to a time slice of the scheduler (3
//! ms). A thread that sleeps there runs as soon as its timer expires. So the move comes before a sleep.

use base::CpuId;
use sys::process::Affinity;

/// The placement of the calling thread. When dropped, the thread may run on all of its CPUs again.
pub struct Placement {
    all: Affinity,
    pinned: Option<Pinned>,
}

struct Pinned {
    cpu: CpuId,
    others: Affinity,
}

impl Placement {
    /// Not pinned. `None` where our set of CPUs is unknown.
    pub fn new() -> Option<Placement> {
        Some(Placement { all: Affinity::own().ok()?, pinned: None })
    }

    /// Pins the thread to a CPU, if that is allowed and another CPU is left to return to.
    pub fn pin(&mut self, cpu: CpuId) {
        if self.is_on(cpu) {
            return;
        }
        let Some((its, others)) = self.all.split(cpu) else { return self.unpin() };
        self.pinned = its.apply().is_ok().then_some(Pinned { cpu, others });
    }

    /// Whether the thread is pinned to this CPU.
    #[must_use]
    pub fn is_on(&self, cpu: CpuId) -> bool {
        self.pinned.as_ref().is_some_and(|pinned| pinned.cpu == cpu)
    }

    /// Moves to another CPU at once, so that the stopped thread has its own, and then allows any.
    pub fn unpin(&mut self) {
        if let Some(pinned) = self.pinned.take() {
            let _ = pinned.others.apply();
            let _ = self.all.apply();
        }
    }
}

impl Drop for Placement {
    fn drop(&mut self) {
        self.unpin();
    }
}
