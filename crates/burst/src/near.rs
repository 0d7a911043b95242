//! Being on the CPU of a thread that makes calls for us.
//!
//! What for: such a thread stops twice per call and stands still until we answer. From another CPU that takes a wake-up
//! there each time, some 40 us in a virtual machine or beside other work; on its own, a switch of some 9. What not: work
//! that the thread does not wait for, which would keep it from its CPU.

use base::{Pid, Tid};
use sys::process::Affinity;
use tracee::status::cpu_of;

/// We are near a thread; when this is dropped we are on another CPU again, and may run on all.
pub struct Near {
    all: Affinity,
    others: Affinity,
}

impl Near {
    /// Goes where a thread ran last. `None` where we may not, or where there is no other CPU to come back to.
    pub fn to(pid: Pid, tid: Tid) -> Option<Near> {
        let all = Affinity::own().ok()?;
        let (its, others) = all.split(cpu_of(pid, tid)?)?;
        its.apply().ok()?;
        Some(Near { all, others })
    }
}

impl Drop for Near {
    fn drop(&mut self) {
        // At once: the thread is to have its CPU for itself. Allowed all again, we would stay until the kernel balances.
        let _ = self.others.apply();
        let _ = self.all.apply();
    }
}
