//! Stops any one thread of a process at a moment when the program does not notice.
//!
//! What for: system calls that some thread must make for us (`guest`). What not: bursts, which need a running thread
//! (`picker`). Assumption: a thread that has waited in one call for a millisecond also waits for the microseconds
//! until it stops.

use std::time::Duration;

use base::{Pid, Tid};

use crate::picker::{blocks_harmlessly, may_be_stopped};
use crate::refused::Refused;
use crate::visit::{Blocked, Visit, Watch};

/// Time between two readings of the call in which a thread waits.
const QUIET: Duration = Duration::from_millis(1);

/// Stops a thread where the program does not notice; `None` if that is impossible now. `even_endless`: also a thread that
/// waits for events.
pub fn stop<'w>(
    pid: Pid,
    tid: Tid,
    watch: &'w Watch,
    even_endless: bool,
) -> Result<Option<Visit<'w>>, Refused> {
    let blocked = if waits_harmlessly(pid, tid, even_endless) {
        Blocked::InFrontOfCall
    } else if may_be_stopped(pid, tid).is_ok() {
        Blocked::LeaveAlone
    } else {
        return Ok(None);
    };
    match Visit::begin(tid, watch, blocked) {
        Ok(visit) if visit.check().is_ok() => Ok(Some(visit)),
        Ok(visit) => {
            visit.leave(0);
            Ok(None)
        }
        Err(Refused::NotAllowed) => Err(Refused::NotAllowed),
        Err(_) => Ok(None),
    }
}

/// Whether a thread waits in a call that continues unchanged after a stop. These are the calls of
/// [`blocks_harmlessly`], select and pselect, for which the kernel keeps the remaining time, and reading from an
/// empty pipe. With `even_endless` also waiting for events without a time limit, which we make continue
/// ([`keep_waiting`](sys::trace::Registers::keep_waiting)). If we die in the microseconds between the stop and that,
/// the call ends early, as with every other tracer. The call is read twice.
fn waits_harmlessly(pid: Pid, tid: Tid, even_endless: bool) -> bool {
    let read =
        || std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/syscall")).unwrap_or_default();
    let before = read();
    let mut words = before.split_whitespace();
    let number = words.next().unwrap_or_default();
    let arguments: Vec<u64> =
        words.filter_map(|word| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok()).collect();
    let argument = |number: usize| arguments.get(number).copied();
    let is_endless = |limit: u64| (limit as u32).cast_signed() < 0;
    let harmless = match number {
        // arch/x86/entry/syscalls/syscall_64.tbl
        "0" => argument(0).is_some_and(|descriptor| is_pipe(pid, descriptor)),
        "23" | "270" => true,
        "232" | "281" => even_endless && argument(3).is_some_and(is_endless),
        "441" => even_endless && argument(3) == Some(0),
        _ => blocks_harmlessly(pid, tid),
    };
    harmless && {
        std::thread::sleep(QUIET);
        read() == before
    }
}

fn is_pipe(pid: Pid, descriptor: u64) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    std::fs::metadata(format!("/proc/{pid}/fd/{descriptor}"))
        .is_ok_and(|file| file.file_type().is_fifo())
}
