//! Placement of the tracing thread: on the CPU of the thread that it stops next, or off it.
//!
//! What for: where every CPU is busy, the tracer takes turns with the thread that it stops, on that thread's CPU: a stop is two
//! context switches there, some 6 us each, and two wake-ups from another CPU, some 40 us each in a virtual machine or next
//! to other work (`bench/stop_parts.py`). Where a CPU is free, the tracer stays off the thread's CPU. What it does before
//! and after a stop takes five times as long as the stop, and would displace the thread; and a thread that is displaced next
//! to a free CPU is soon moved there. What not: work for which the stopped thread does not wait; on its CPU, it would keep the
//! thread from it.
//!
//! Hazard: a thread that moves while awake waits for its turn on a busy CPU, up to a time slice of the scheduler (3
//! ms). A thread that sleeps there runs as soon as its timer expires. So the move onto it comes before a sleep.

use base::CpuId;
use sys::process::Affinity;

/// The CPUs that the tracer may use, seen from that of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// That one.
    Same,
    /// All others.
    Other,
}

/// The placement of the calling thread. When dropped, the thread may run on all of its CPUs again.
pub struct Placement {
    all: Affinity,
    pinned: Option<Pinned>,
}

struct Pinned {
    cpu: CpuId,
    side: Side,
    others: Affinity,
}

impl Placement {
    /// Not pinned. `None` where our set of CPUs is unknown.
    pub fn new() -> Option<Placement> {
        Some(Placement { all: Affinity::own().ok()?, pinned: None })
    }

    /// Pins the thread to a CPU, or to all others, if both are allowed.
    pub fn pin(&mut self, cpu: CpuId, side: Side) {
        if self.is(cpu, side) {
            return;
        }
        let Some((its, others)) = self.all.split(cpu) else { return self.release() };
        let done = match side {
            Side::Same => its.apply(),
            Side::Other => others.apply(),
        };
        self.pinned = done.is_ok().then_some(Pinned { cpu, side, others });
    }

    /// Whether the thread is pinned so.
    #[must_use]
    pub fn is(&self, cpu: CpuId, side: Side) -> bool {
        self.pinned.as_ref().is_some_and(|pinned| pinned.cpu == cpu && pinned.side == side)
    }

    /// Moves off the stopped thread's CPU at once, so that the thread has it, and then allows any.
    pub fn unpin(&mut self) {
        if self.pinned.as_ref().is_some_and(|pinned| pinned.side == Side::Same) {
            self.release();
        }
    }

    fn release(&mut self) {
        if let Some(pinned) = self.pinned.take() {
            if pinned.side == Side::Same {
                let _ = pinned.others.apply();
            }
            let _ = self.all.apply();
        }
    }
}

impl Drop for Placement {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_side_of_a_cpu_is_taken_and_left() {
        let own = || Affinity::own().expect("a mask");
        let all = own();
        let split = |cpu| Some((cpu, all.split(cpu)?));
        let Some((cpu, (only, others))) = (0..4096).map(CpuId).find_map(split) else {
            println!("skipped: one CPU");
            return;
        };
        let mut placement = Placement::new().expect("a mask");
        placement.pin(cpu, Side::Other);
        assert!(placement.is(cpu, Side::Other) && !placement.is(cpu, Side::Same));
        assert_eq!(own(), others);
        placement.unpin();
        assert_eq!(own(), others, "no thread waits for it there");
        placement.pin(cpu, Side::Same);
        assert_eq!(own(), only);
        placement.unpin();
        assert_eq!(own(), all);
        placement.pin(cpu, Side::Other);
        drop(placement);
        assert_eq!(own(), all);
    }
}
