//! The processes of this machine and the CPU time that each used, to find those that are busy.
//!
//! What for: one reading of `/proc/PID/stat` per process. What not: choosing among them (cli), levels over time (`gauges`).
//! Format: `proc_pid_stat(5)`. Threads of the kernel and processes that have ended are left out.

use std::collections::BTreeMap;

use base::{Nanos, Pid};
use tracee::status::from_state_on;

use crate::proc_status::{PF_KTHREAD, TICK, all_processes};

pub use crate::proc_status::process_cpu_time as cpu_time;

/// A process at a moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunningProcess {
    /// Its name, at most 15 bytes.
    pub name: String,
    /// Who started it.
    pub parent: Pid,
    /// When it began, in ticks since boot: a later process with the same id has another one.
    pub began: u64,
    /// CPU time so far, that of ended threads included.
    pub cpu: Nanos,
}

impl RunningProcess {
    fn of(pid: Pid) -> Option<RunningProcess> {
        let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
        RunningProcess::parse(&String::from_utf8_lossy(&stat))
    }

    fn parse(stat: &str) -> Option<RunningProcess> {
        // The name in parentheses may hold anything; field 3 follows it.
        let rest = from_state_on(stat)?;
        let name = stat.strip_suffix(rest)?.split_once('(')?.1.strip_suffix(") ")?;
        let fields: Vec<&str> = rest.split(' ').collect();
        let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        if number(9)? & PF_KTHREAD != 0 || rest.starts_with(['Z', 'X']) {
            return None;
        }
        Some(RunningProcess {
            name: name.to_owned(),
            parent: Pid(fields.get(1)?.parse().ok()?),
            began: number(22)?,
            cpu: Nanos(number(14)?.checked_add(number(15)?)?.checked_mul(TICK)?),
        })
    }
}

/// All that run, as far as `/proc` shows them.
#[must_use]
pub fn running_processes() -> BTreeMap<Pid, RunningProcess> {
    let all = all_processes().into_iter();
    all.filter_map(|pid| Some((pid, RunningProcess::of(pid)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_kernel_is_read_whatever_the_name() {
        let line = |state: &str, flags: u32| {
            format!("7 (a) b) (c) {state} 3 7 7 0 -1 {flags} 1 0 0 0 150 50 9 9 20 0 1 0 4711 0")
        };
        let found = RunningProcess::parse(&line("R", 0x40_0000)).expect("a process");
        assert_eq!((found.name.as_str(), found.parent, found.began), ("a) b) (c", Pid(3), 4711));
        assert_eq!(found.cpu, Nanos(2_000_000_000));
        assert_eq!(RunningProcess::parse(&line("Z", 0)), None);
        assert_eq!(RunningProcess::parse(&line("S", 0x20_8040)), None, "a thread of the kernel");
        assert_eq!(RunningProcess::parse("7 (x) R 1"), None);
    }

    #[test]
    fn this_process_runs() {
        let own = Pid(std::process::id().cast_signed());
        assert!(running_processes().contains_key(&own));
    }
}
