//! How far a thread's registers go natively behind a trace.
//!
//! What for: a loop that makes even progress tells by its registers how much faster it runs natively. What not: which
//! register that is (`analysis`).
//! Assumption: a thread that used little CPU time since is mostly in the same loop still.

use base::{BurstId, Nanos, Pid, Tid};
use facts::NativeAdvance;
use sys::trace::Registers;
use x86::Gpr;

/// CPU time behind a trace up to which it may tell something.
const DIRECTLY: Nanos = Nanos(10_000_000);

/// A trace that only native code came behind.
pub struct LastTrace {
    /// Its burst.
    pub burst: BurstId,
    /// Its thread.
    pub thread: (Pid, Tid),
    /// Native registers at its begin.
    pub entered: General,
    /// And at its end.
    pub left: General,
    /// CPU time of the thread at its end.
    pub used: Nanos,
}

/// rax to r15, by number.
pub type General = [u64; Gpr::COUNT];

/// The general-purpose ones.
#[must_use]
pub fn general(registers: &Registers) -> General {
    std::array::from_fn(|number| registers.general(number))
}

impl LastTrace {
    /// Of each register that changed in the trace and since, how far it went. `now` and `used` are those of the thread at its
    /// first stop behind the trace.
    #[must_use]
    pub fn advances(&self, now: &General, used: Nanos) -> Vec<NativeAdvance> {
        let cpu_time = used - self.used;
        if cpu_time > DIRECTLY {
            return Vec::new();
        }
        let of = |register: Gpr| {
            let at = register.number();
            let inside = self.left[at].wrapping_sub(self.entered[at]);
            let natively = now[at].wrapping_sub(self.left[at]);
            let (burst, register) = (self.burst, register.to_string());
            (inside != 0 && natively != 0).then_some(NativeAdvance {
                burst,
                register,
                cpu_time,
                inside,
                natively,
            })
        };
        Gpr::all().filter_map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_that_changed_in_both_are_told() {
        let mut general = [[7; 16]; 3];
        // rax in both, rcx only in the trace, rdi in both, backwards natively.
        general[1][..2].copy_from_slice(&[100, 9]);
        general[2][..2].copy_from_slice(&[150, 9]);
        (general[1][7], general[2][7]) = (8, 3);
        let [entered, left, now] = general;
        let (burst, thread, used) = (BurstId(4), (Pid(1), Tid(2)), Nanos(5_000_000));
        let last = LastTrace { burst, thread, entered, left, used };
        let told = last.advances(&now, Nanos(6_000_000));
        let plain: Vec<_> =
            told.iter().map(|one| (one.register.as_str(), one.inside, one.natively)).collect();
        assert_eq!(plain, [("rax", 93, 50), ("rdi", 1, 5u64.wrapping_neg())]);
        assert!(told.iter().all(|one| one.burst == burst && one.cpu_time == Nanos(1_000_000)));
        assert!(last.advances(&now, Nanos(15_000_001)).is_empty());
    }
}
