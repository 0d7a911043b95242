//! Probes: how often a thread executes one instruction of a file, counted by a breakpoint that the kernel puts into the code.
//!
//! What for: counting in virtual machines, where debug registers are not safe (`burst::native_count`). What not: which
//! instruction.
//!
//! Source: the PMU `uprobe` of Linux 4.17, kernel/events/core.c (`perf_uprobe_event_init`, which asks for CAP_PERFMON) and
//! kernel/events/uprobes.c. The kernel puts the breakpoint into the memory of the thread's process alone, into a copy of the page, and
//! takes it out when the event is closed, however that happens.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use base::{FileOffset, Tid};

use super::{Attr, Event, OpenTarget, open};

/// Which number the PMU has in this kernel.
const NUMBER: &str = "/sys/bus/event_source/devices/uprobe/type";

/// Counts executions of the instruction at an offset of a file by a thread, which [`Event::read_timed`] reads. The breakpoint is there
/// when this returns, 5 to 30 ms later, and not much before. Closing the event takes it out within 0.1 ms, and goes on to wait for up
/// to 0.1 s.
///
/// # Errors
/// Not permitted; no such kernel; the instruction cannot be replaced.
pub fn open_probe(file: &Path, at: FileOffset, tid: Tid) -> io::Result<Event> {
    let number = fs::read_to_string(NUMBER)?;
    let number = number.trim().parse().map_err(|_| io::ErrorKind::InvalidData)?;
    let name = CString::new(file.as_os_str().as_bytes())?;
    let attr = Attr::default().of_event(number, [0, name.as_ptr() as u64, at.0]);
    // The kernel copies the name in the call, in which it lives.
    open(&attr, OpenTarget { tid, cpu: None })
}
