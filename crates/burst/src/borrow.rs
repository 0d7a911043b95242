//! A thread of a process, any one, stopped where neither it nor anybody else notices.
//!
//! What for: calls that some thread must make for us (`guest`). What not: bursts, which want a thread that runs (`picker`).
//! Assumption: a thread that has waited in one call for a millisecond goes on to wait for the microseconds until it stops.

use std::time::Duration;

use base::{Pid, Tid};

use crate::picker::{blocks_harmlessly, may_be_stopped};
use crate::refused::Refused;
use crate::visit::{Blocked, Visit, Watch};

/// A moment between two looks at what a thread waits for.
const QUIET: Duration = Duration::from_millis(1);

/// Stops a thread where that is not noticed; `None` when it cannot be now. `even_endless`: also one that waits for events.
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

/// Whether a thread waits in a call that goes on as if nothing had been when the thread is stopped: those of
/// [`blocks_harmlessly`]; select and pselect, of which the kernel notes the time that is left; reading from an empty pipe.
/// If asked for, also waiting for events without a time limit, which goes on by our doing
/// ([`keep_waiting`](sys::trace::Registers::keep_waiting)): if we die in the microseconds between the stop and that, the call
/// ends early, as it does for every other tracer. Looked at twice.
fn waits_harmlessly(pid: Pid, tid: Tid, even_endless: bool) -> bool {
    let look =
        || std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/syscall")).unwrap_or_default();
    let before = look();
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
        look() == before
    }
}

fn is_pipe(pid: Pid, descriptor: u64) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    std::fs::metadata(format!("/proc/{pid}/fd/{descriptor}"))
        .is_ok_and(|file| file.file_type().is_fifo())
}
