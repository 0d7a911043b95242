//! Being on the CPU of the thread that is to be stopped.
//!
//! What for: a thread that is stopped from another CPU waits for two wake-ups there, some 40 us each in a virtual machine or
//! beside other work; from its own CPU a stop is two switches, some 6 us each (`bench/stop_parts.py`). What not: work that the
//! thread does not wait for, which would keep it from its CPU.
//!
//! Hazard: whoever moves while awake waits for its turn on the new CPU, up to a slice of the scheduler (3 ms); whoever
//! sleeps there is switched to at once when its time comes. So we move in front of a sleep.

use base::CpuId;
use sys::process::Affinity;

/// Where the calling thread is. When this is dropped it may run on all of its CPUs again.
pub struct Near {
    all: Affinity,
    at: Option<At>,
}

struct At {
    cpu: CpuId,
    others: Affinity,
}

impl Near {
    /// Nowhere in particular. `None` where nobody tells which CPUs are ours.
    pub fn new() -> Option<Near> {
        Some(Near { all: Affinity::own().ok()?, at: None })
    }

    /// Stays on a CPU from now on, where we may and there is another one to come back to.
    pub fn go(&mut self, cpu: CpuId) {
        if self.is_at(cpu) {
            return;
        }
        let Some((its, others)) = self.all.split(cpu) else { return self.leave() };
        self.at = its.apply().is_ok().then_some(At { cpu, others });
    }

    /// Whether we stay on this CPU.
    #[must_use]
    pub fn is_at(&self, cpu: CpuId) -> bool {
        self.at.as_ref().is_some_and(|at| at.cpu == cpu)
    }

    /// Is on another CPU when this returns, so that the thread has its own for itself; afterwards on any.
    pub fn leave(&mut self) {
        if let Some(at) = self.at.take() {
            let _ = at.others.apply();
            let _ = self.all.apply();
        }
    }
}

impl Drop for Near {
    fn drop(&mut self) {
        self.leave();
    }
}
