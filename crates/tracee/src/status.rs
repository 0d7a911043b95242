//! The state of one thread in `/proc` at a moment (proc_pid_stat(5), proc_pid_status(5), proc_pid_syscall(5)), and the page
//! faults of a process.
//!
//! What not: mappings (`maps`), other totals of a process.

use std::fs::File;
use std::os::unix::fs::FileExt;

use base::{CpuId, Pid, Tid};

/// A file of a thread, to be read again and again: to open it takes longer than to read it.
pub struct ThreadFile(File);

impl ThreadFile {
    /// `/proc/PID/task/TID/NAME`; `None` when the thread is gone.
    #[must_use]
    pub fn open(pid: Pid, tid: Tid, name: &str) -> Option<ThreadFile> {
        File::open(format!("/proc/{pid}/task/{tid}/{name}")).ok().map(ThreadFile)
    }

    /// `/proc/PID/NAME`, which is of all threads together.
    #[must_use]
    pub fn of_process(pid: Pid, name: &str) -> Option<ThreadFile> {
        File::open(format!("/proc/{pid}/{name}")).ok().map(ThreadFile)
    }

    /// The same of the calling thread.
    #[must_use]
    pub fn own(name: &str) -> Option<ThreadFile> {
        File::open(format!("/proc/thread-self/{name}")).ok().map(ThreadFile)
    }

    /// What it says now; `None` when the thread is gone.
    #[must_use]
    pub fn read(&self) -> Option<String> {
        const ROOM: usize = 4096;
        let mut room = [0; ROOM];
        // The kernel gives as much as it has: less than there is room for is the end.
        let mut length = self.0.read_at(&mut room, 0).ok()?;
        if length < ROOM {
            let text = std::str::from_utf8(&room[..length]).ok()?;
            return (!text.is_empty()).then(|| text.to_owned());
        }
        let mut bytes = room.to_vec();
        loop {
            bytes.resize(2 * length, 0);
            length += self.0.read_at(&mut bytes[length..], length as u64).ok()?;
            if length < bytes.len() {
                bytes.truncate(length);
                return String::from_utf8(bytes).ok();
            }
        }
    }
}

/// `/proc/PID/task/TID/status`; empty when the thread is gone.
#[must_use]
pub fn status_of(pid: Pid, tid: Tid) -> String {
    of_thread(pid, tid, "status").unwrap_or_default()
}

fn of_thread(pid: Pid, tid: Tid, name: &str) -> Option<String> {
    ThreadFile::open(pid, tid, name)?.read()
}

/// The value of a line of a status, `Tgid:` for example.
#[must_use]
pub fn field<'t>(status: &'t str, name: &str) -> Option<&'t str> {
    status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

/// The fields of a `stat` from the third on, the state: in front of them stands the name in parentheses, which may hold
/// anything.
#[must_use]
pub fn from_state_on(stat: &str) -> Option<&str> {
    stat.rsplit_once(") ").map(|(_, rest)| rest)
}

/// Whether a thread or process has ended, waited for or not.
#[must_use]
pub fn has_ended(tid: Tid) -> bool {
    std::fs::read_to_string(format!("/proc/{tid}/stat"))
        .ok()
        .and_then(|stat| from_state_on(&stat).map(|rest| rest.starts_with(['Z', 'X'])))
        .unwrap_or(true)
}

/// The `stat`, from the state on, of a thread that is runnable and does not block in a system call:
/// `/proc/PID/task/TID/syscall` reads "running" then, while a blocked thread shows the call's number.
#[must_use]
pub fn stat_of_running(pid: Pid, tid: Tid) -> Option<String> {
    let stat = of_thread(pid, tid, "stat")?;
    let rest = from_state_on(&stat).filter(|rest| rest.starts_with('R'))?;
    // Some sandboxes hide `syscall`; the state must do there.
    let blocked = of_thread(pid, tid, "syscall").is_some_and(|text| !text.starts_with("running"));
    (!blocked).then(|| rest.to_owned())
}

/// The CPU that a thread ran on last: field 39 of this text of its `stat`.
#[must_use]
pub fn cpu_in(stat: &str) -> Option<CpuId> {
    from_state_on(stat)?.split(' ').nth(36)?.parse().ok().map(CpuId)
}

/// Threads of the process of this text of a `stat`: field 20.
#[must_use]
pub fn threads_in(stat: &str) -> Option<u64> {
    from_state_on(stat)?.split(' ').nth(17)?.parse().ok()
}

/// Page faults of a process so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FaultCounts {
    /// Minor faults.
    pub minor: u64,
    /// Major faults.
    pub major: u64,
}

impl FaultCounts {
    /// From the text of a `stat`: fields 10 and 12.
    #[must_use]
    pub fn parse(stat: &str) -> Option<FaultCounts> {
        let mut fields = from_state_on(stat)?.split(' ').skip(7);
        let minor = fields.next()?.parse().ok()?;
        let major = fields.nth(1)?.parse().ok()?;
        Some(FaultCounts { minor, major })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_hold_anything() {
        assert_eq!(from_state_on("7 (a) b) (c) S 1 7"), Some("S 1 7"));
        assert_eq!(from_state_on("7"), None);
        assert_eq!(field("Name:\tTgid:\nTgid:\t17\n", "Tgid:"), Some("17"));
    }

    #[test]
    fn fault_counts_survive_odd_names() {
        let stat = "7 (a) b) (c) S 1 7 7 0 -1 4194304 123 9 45 0 1 2 3";
        assert_eq!(FaultCounts::parse(stat), Some(FaultCounts { minor: 123, major: 45 }));
        assert_eq!(threads_in(stat), None);
        assert_eq!(FaultCounts::parse("7 (x) S 1"), None);
        assert_eq!(FaultCounts::parse("7 (a) b) S 1 7 7 0 -1 4194560 100"), None);
    }

    #[test]
    fn this_thread_runs_and_a_nameless_one_has_ended() {
        let own = Pid(std::process::id().cast_signed());
        assert!(!has_ended(Tid(own.0)));
        let cpu_of = |tid| cpu_in(&of_thread(own, tid, "stat")?);
        assert!(cpu_of(Tid(own.0)).is_some() && cpu_of(Tid(-1)).is_none());
        // This test runs in another thread than the main one.
        let stat = ThreadFile::of_process(own, "stat").and_then(|file| file.read());
        assert!(stat.and_then(|stat| threads_in(&stat)).is_some_and(|threads| threads > 1));
        assert!(has_ended(Tid(-1)));
        assert!(stat_of_running(own, Tid(-1)).is_none());
    }
}
