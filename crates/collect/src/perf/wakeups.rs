//! The thread that ended a wait: the one that ran when the kernel was asked to wake the waiting thread.
//!
//! What for: records of the tracepoint `sched:sched_waking`, matched with the end of the wait that follows. What not:
//! wakes by threads of other programs, because events follow only ours; from Linux 6.16 on, wakes by the end of a
//! thread, because its events are closed before it wakes the joining thread (`do_exit`, kernel/exit.c).
//!
//! Where threads wake each other often, the kernel thins the records, and each represents several. A new thread
//! begins with the rate of its creator, so that a few of its first wakes may be missing. A wake in an interrupt (by a
//! timer, a device) is not the work of the interrupted thread.
//!
//! Assumption: the record names threads by the numbers of the first pid name space; in another one it is not used.

use std::collections::{BTreeMap, HashMap};

use base::{Nanos, Pid, ThreadId, Tid};
use facts::{Fact, SinkError, Wake, Waker};

use super::switches::WaitSite;
use crate::proc_status::in_first_pid_name_space;
use crate::recorder::Recorder;
use crate::tracefs;

/// A wake whose thread got no CPU within this time is dropped: most are of threads outside the program.
const FORGOTTEN: Nanos = Nanos(1_000_000_000);

/// The tracepoint, with the numbers of the running kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WakingTracepoint {
    /// Its number, as perf_event_open takes it.
    pub id: u64,
    /// Offsets in a record of its flags, and of the number of the woken thread.
    flags: usize,
    woken: usize,
}

impl WakingTracepoint {
    /// Finds it; `None` where this user may not read it.
    pub fn find() -> Option<WakingTracepoint> {
        if !in_first_pid_name_space() {
            return None;
        }
        parse_format(&tracefs::event_file("sched/sched_waking", "format")?)
    }

    /// The thread that a record wakes, and whether in an interrupt.
    pub fn read(&self, raw: &[u8]) -> Option<(Tid, bool)> {
        const IN_INTERRUPT: u8 = 0x08 | 0x10; // TRACE_FLAG_HARDIRQ, TRACE_FLAG_SOFTIRQ: linux/trace_events.h
        let tid = i32::from_le_bytes(*raw.get(self.woken..)?.first_chunk()?);
        Some((Tid(tid), raw.get(self.flags)? & IN_INTERRUPT != 0))
    }
}

/// Lines are `field:pid_t pid; offset:24; size:4; signed:1;` (Documentation/trace/events.rst).
fn parse_format(text: &str) -> Option<WakingTracepoint> {
    let id = text.lines().find_map(|line| line.strip_prefix("ID:"))?.trim().parse().ok()?;
    let offset = |declared: &str, size: &str| {
        let mut parts = text.lines().find_map(|line| {
            let mut parts = line.trim().strip_prefix("field:")?.split(';').map(str::trim);
            (parts.next() == Some(declared)).then_some(parts)
        })?;
        let offset = parts.next()?.strip_prefix("offset:")?.parse().ok()?;
        (parts.next() == Some(size)).then_some(offset)
    };
    let flags = offset("unsigned char common_flags", "size:1")?;
    Some(WakingTracepoint { id, flags, woken: offset("pid_t pid", "size:4")? })
}

/// The end of a wait, and the number of ends that it represents.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Woken {
    time: Nanos,
    waker: Option<Waker>,
    weight: u64,
}

/// Wakes and the time waited before them, weighted, and the number of records.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    wakes: u64,
    waited: Nanos,
    seen: u64,
}

/// A sum of waits: of one thread at one site, ended by one thread at one site.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct WakeGroup {
    pid: Pid,
    tid: Tid,
    site: WaitSite,
    waker: Option<Waker>,
}

/// Wakes that have not ended a wait yet, and the sums of this window.
#[derive(Debug, Default)]
pub struct Wakers {
    woken: HashMap<Tid, Woken>,
    sums: BTreeMap<WakeGroup, Sum>,
}

impl Wakers {
    /// A thread is woken; from outside the program if there is no waker. Represents `weight` wakes of that waker.
    pub fn wakes(&mut self, time: Nanos, woken: Tid, waker: Option<Waker>, weight: u64) {
        self.woken.insert(woken, Woken { time, waker, weight });
    }

    /// A wait ended. If its waker was recorded, it is added to a sum, or reported alone if it was as long as a
    /// window.
    pub fn ended(
        &mut self,
        ThreadId { pid, tid }: ThreadId,
        site: WaitSite,
        (since, until): (Nanos, Nanos),
        window: Nanos,
        recorder: &mut Recorder<'_>,
    ) -> Result<(), SinkError> {
        let Some(Woken { time, waker, weight }) = self.woken.remove(&tid) else { return Ok(()) };
        // A wake of a thread that was still running ended nothing.
        if time < since {
            return Ok(());
        }
        let (group, length) = (WakeGroup { pid, tid, site, waker }, until - since);
        let mut long = Sum::default();
        let is_long = length >= window;
        let sum = if is_long { &mut long } else { self.sums.entry(group).or_default() };
        sum.wakes += weight;
        sum.waited += Nanos(length.0.saturating_mul(weight));
        sum.seen += 1;
        if is_long { recorder.push(Fact::Wake(wake(group, (since, length), long))) } else { Ok(()) }
    }

    /// Reports the sums of a window; returns their number.
    pub fn close(
        &mut self,
        window: (Nanos, Nanos),
        recorder: &mut Recorder<'_>,
    ) -> Result<u64, SinkError> {
        self.woken.retain(|_, woken| woken.time + FORGOTTEN >= window.0);
        let sums = std::mem::take(&mut self.sums);
        let rows = sums.len() as u64;
        sums.into_iter()
            .try_for_each(|(group, sum)| recorder.push(Fact::Wake(wake(group, window, sum))))?;
        Ok(rows)
    }

    /// Ends of waits may have been lost.
    pub fn lost(&mut self) {
        self.woken.clear();
    }
}

fn wake(
    WakeGroup { pid, tid, site: WaitSite { stack, object }, waker }: WakeGroup,
    (time, span): (Nanos, Nanos),
    Sum { wakes, waited, seen }: Sum,
) -> Wake {
    Wake { time, span, pid, tid, object, stack, waker, wakes, waited, seen }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: &str = "name: sched_waking\nID: 375\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
        \tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;\n";

    #[test]
    fn a_record_says_who_is_woken_and_whether_by_an_interrupt() {
        let found = parse_format(FORMAT).expect("well-formed");
        assert_eq!(found, WakingTracepoint { id: 375, flags: 2, woken: 24 });
        let mut raw = [0u8; 36];
        raw[24] = 7;
        assert_eq!(found.read(&raw), Some((Tid(7), false)));
        raw[2] = 0x09;
        assert_eq!(found.read(&raw), Some((Tid(7), true)));
        assert_eq!(found.read(&raw[..27]), None);
    }

    #[test]
    fn a_description_that_is_not_understood_is_none() {
        assert_eq!(parse_format(""), None);
        assert_eq!(parse_format(&FORMAT.replace("size:4", "size:8")), None);
        assert_eq!(parse_format(&FORMAT.replace("ID: 375", "ID: x")), None);
        let far = FORMAT.replace("offset:24", "offset:18446744073709551615");
        assert_eq!(parse_format(&far).and_then(|found| found.read(&[0; 64])), None);
    }
}
