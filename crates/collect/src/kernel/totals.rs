//! Totals of a program from perf counters, where the kernel refuses our BPF programs.
//!
//! What for: page faults and switches of the program instead of those of the machine; system calls and interrupts
//! too, where the kernel's list of tracepoints is readable. The totals are exact, with all threads and processes that
//! the program starts. What not: per thread, per name, or the time in them: when a thread ends, its count is added to
//! its parent's.

use base::{Pid, Tid};
use facts::KernelCause;
use sys::perf::{Attr, Event, Flag, OpenTarget, SoftwareEvent};

use super::counts::Growth;
use crate::tracefs;

const SOFTWARE: [(SoftwareEvent, KernelCause, &str); 3] = [
    (SoftwareEvent::MinorFaults, KernelCause::PageFault, "minor"),
    (SoftwareEvent::MajorFaults, KernelCause::PageFault, "major"),
    (SoftwareEvent::ContextSwitches, KernelCause::Switch, "any"),
];

/// Timers have no interrupt line of a device.
const TRACEPOINTS: [(&str, KernelCause, &str); 4] = [
    ("raw_syscalls/sys_enter", KernelCause::SystemCall, "any"),
    ("irq_vectors/local_timer_entry", KernelCause::Interrupt, "local timer"),
    ("irq/irq_handler_entry", KernelCause::Interrupt, "any device"),
    ("irq/softirq_entry", KernelCause::SoftInterrupt, "any"),
];

/// The program whose entries are recorded.
#[derive(Debug)]
pub struct Watched {
    /// Its first process.
    pub pid: Pid,
    /// Threads that run already; empty for a program that has yet to begin with an execve of `pid`.
    pub running: Vec<Tid>,
}

/// Open counters.
#[derive(Debug)]
pub struct Totals {
    /// The program's first process.
    pub pid: Pid,
    counters: Vec<Counter>,
}

#[derive(Debug)]
struct Counter {
    cause: KernelCause,
    name: &'static str,
    events: Vec<Event>,
    before: u64,
}

impl Totals {
    /// Opens the counters that may be opened; `None` if there are none (`kernel.perf_event_paranoid` 2 and more,
    /// seccomp).
    pub fn open(watched: &Watched) -> Option<Totals> {
        let software =
            SOFTWARE.map(|(event, cause, name)| (Some(Attr::software(event)), cause, name));
        let tracepoints = TRACEPOINTS.map(|(event, cause, name)| {
            let id = tracefs::event_file(event, "id").and_then(|id| id.trim().parse().ok());
            (id.map(|id| Attr::software(SoftwareEvent::Dummy).of_tracepoint(id)), cause, name)
        });
        let counters = software.into_iter().chain(tracepoints).filter_map(|(attr, cause, name)| {
            let events = open(&attr?, watched).ok()?;
            Some(Counter { cause, name, events, before: 0 })
        });
        let counters: Vec<Counter> = counters.collect();
        (!counters.is_empty()).then_some(Totals { pid: watched.pid, counters })
    }

    /// The growth of the counts since the last call.
    pub fn grown(&mut self) -> Vec<Growth> {
        let grown = self.counters.iter_mut().map(|counter| {
            let counts = counter.events.iter().filter_map(|event| event.read().ok());
            let now = counts.fold(0, u64::saturating_add);
            let before = std::mem::replace(&mut counter.before, now);
            let count = now.saturating_sub(before);
            Growth { cause: counter.cause, cpu: None, name: counter.name.to_owned(), count }
        });
        grown.filter(|one| one.count > 0).collect()
    }
}

fn open(attr: &Attr, watched: &Watched) -> std::io::Result<Vec<Event>> {
    let attr = attr.flags(&[Flag::Inherit, Flag::ExcludeHv]);
    if watched.running.is_empty() {
        let attr = attr.flags(&[Flag::Disabled, Flag::EnableOnExec]);
        let target = OpenTarget { tid: Tid(watched.pid.0), cpu: None };
        return Ok(vec![sys::perf::open(&attr, target)?]);
    }
    let events = watched
        .running
        .iter()
        .map(|tid| sys::perf::open(&attr, OpenTarget { tid: *tid, cpu: None }));
    // A thread that has ended since it was listed is missing; if all are missing, counting is refused.
    let (opened, refused): (Vec<_>, Vec<_>) = events.partition(Result::is_ok);
    let opened: Vec<Event> = opened.into_iter().flatten().collect();
    match refused.into_iter().find_map(Result::err) {
        Some(error) if opened.is_empty() => Err(error),
        _ => Ok(opened),
    }
}
