//! Figures of a process from `/proc`: faults, CPU time, whether it is alive, its children.
//!
//! What for: totals where no sampler counts them, and checks before an attach. What not: mappings (`tracee::maps`)
//! and levels over time (`gauges`). Formats: `proc_pid_stat(5)`.

use base::{Nanos, Pid, Tid};
use tracee::status::{FaultCounts, from_state_on, has_ended};

/// Faults of a process so far.
pub fn fault_counts(pid: Pid) -> Option<FaultCounts> {
    FaultCounts::parse(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Nanoseconds of a tick of `/proc/PID/stat`: USER_HZ is 100 on every Linux.
pub const TICK: u64 = 10_000_000;

/// Flag of a thread of the kernel, in field 9 of `/proc/PID/stat` (include/linux/sched.h).
pub const PF_KTHREAD: u64 = 0x0020_0000;

/// CPU time of a process, its ended threads included: user and system time of `/proc/PID/stat` (fields 14 and 15).
pub fn process_cpu_time(pid: Pid) -> Option<Nanos> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = from_state_on(&stat)?.split(' ').skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    Some(Nanos(ticks()?.checked_add(ticks()?)?.checked_mul(TICK)?))
}

/// Whether the kernel's tracepoints use the same process numbers as we do.
pub fn in_first_pid_name_space() -> bool {
    // PROC_PID_INIT_INO, include/linux/proc_ns.h.
    std::fs::read_link("/proc/self/ns/pid").is_ok_and(|name| name.as_os_str() == "pid:[4026531836]")
}

/// Whether a process exists and is not a zombie.
pub fn process_is_alive(pid: Pid) -> bool {
    !has_ended(Tid(pid.0))
}

/// Whether this is a thread of the kernel.
pub fn is_kernel_thread(pid: Pid) -> bool {
    let flags = std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .ok()
        .and_then(|stat| from_state_on(&stat)?.split(' ').nth(6)?.parse::<u64>().ok());
    flags.is_some_and(|flags| flags & PF_KTHREAD != 0)
}

/// Ids of a process's living children, where the kernel tells (CONFIG_PROC_CHILDREN).
pub fn children_of(pid: Pid, threads: &[Tid]) -> Vec<String> {
    let of = |tid: &Tid| {
        std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/children")).unwrap_or_default()
    };
    threads
        .iter()
        .map(of)
        .flat_map(|text| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        .collect()
}

/// The processes of this machine, as far as `/proc` shows them.
pub fn all_processes() -> Vec<Pid> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    let mut found: Vec<Pid> =
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok().map(Pid)).collect();
    found.sort_unstable();
    found
}
