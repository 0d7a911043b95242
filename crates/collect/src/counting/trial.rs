//! Whether counting works here, tried on ourselves: settings of the kernel do not tell of a container that refuses the system call, nor of a
//! virtual machine whose PMU takes every event and counts none.
//!
//! What not: what the settings allow (`machine::pmu::rights`).

use std::time::{Duration, Instant};

use base::{CpuId, Nanos, Tid};
use sys::perf::PERF_TYPE_HARDWARE;

use super::{Carried, Choice, Counting, Scope, Switch, Targets};

/// So long we compute while cycles are counted.
const LENGTH: Duration = Duration::from_millis(2);
/// A PMU that shows no cycle in this time with a counter does not count.
const LONG_ENOUGH: Nanos = Nanos(100_000);

/// What can be counted besides our own programs in user space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Allowed {
    /// These in the kernel, too.
    pub kernel: bool,
    /// Whole CPUs.
    pub machine: bool,
}

/// Why nothing can be counted.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TrialError {
    /// The system call is refused.
    #[error("{0}")]
    Refused(String),
    /// No PMU takes cycles.
    #[error("{0}")]
    NotCounted(String),
    /// It takes them and shows 0.
    #[error(
        "this PMU does not count: it shows 0 cycles for a program that runs, as in some virtual machines"
    )]
    ShowsZero,
}

/// Counts cycles of ourselves for some milliseconds, and opens a counter of a CPU.
///
/// # Errors
/// Says why nothing can be counted here.
pub fn try_here(cpu: CpuId) -> Result<Allowed, TrialError> {
    let wanted = [vec![Choice {
        name: "cycles".to_owned(),
        pmu: PERF_TYPE_HARDWARE,
        config: [0; 3],
        only_in_kernel: false,
        scope: Scope::Modes,
        sampled: None,
        carries: Carried::Nothing,
    }]];
    let (mut own, refused) = Counting::open(&Targets::Threads(&[Tid(0)]), &wanted);
    if let Some(error) = refused {
        return Err(TrialError::Refused(error.to_string()));
    }
    let Some(opened) = own.groups.first_mut().and_then(|group| group.opened.first_mut()) else {
        return Err(TrialError::NotCounted(own.notes.join("; ")));
    };
    // Where that fails, nothing runs, and nothing is concluded.
    let _ = opened.leader.set(Switch::On);
    let start = Instant::now();
    while start.elapsed() < LENGTH {
        std::hint::spin_loop();
    }
    let shown = opened.read();
    if shown.running >= LONG_ENOUGH && shown.counts.first() == Some(&0) {
        return Err(TrialError::ShowsZero);
    }
    let (machine, refused) = Counting::open(&Targets::Machine(&[cpu]), &wanted);
    let machine = refused.is_none() && !machine.groups.is_empty();
    Ok(Allowed { kernel: own.kernel, machine })
}
