//! Times of threads from `/proc`, read ten times a second where context switches are not reported.
//!
//! What for: a recording of threads where perf events are refused. The kernel counts how long a thread ran and waited
//! for a CPU (`/proc/PID/task/TID/schedstat`). In the remaining time it waited. The reason is read at the end of each
//! round and holds for the whole round.
//!
//! What not: single waits, preemptions, threads that live for less than a round, and the last round of a thread that
//! ended.

use std::collections::BTreeMap;

use base::{Nanos, Pid, ThreadId, Tid};
use facts::{Fact, SinkError, ThreadTime, Wait, WaitKind};

use crate::long_waits;
use crate::recorder::{Moment, Recorder};

/// Reading a thread takes some 40 microseconds; of a program with more of them only the first ones are read.
const MOST_THREADS: usize = 256;
const INTERVAL: Nanos = Nanos(100_000_000);

#[derive(Clone, Copy)]
struct Reading {
    time: Nanos,
    ran: Nanos,
    queued: Nanos,
    switches: u64,
}

/// Reads all threads at fixed times.
#[derive(Default)]
pub struct PolledThreads {
    next: Nanos,
    seen: BTreeMap<ThreadId, Reading>,
}

impl PolledThreads {
    /// Reads them if that is due at `now`.
    pub fn poll(&mut self, now: Nanos, recorder: &mut Recorder<'_>) -> Result<(), SinkError> {
        if now < self.next {
            return Ok(());
        }
        self.next = now + INTERVAL;
        let processes: Vec<Pid> = recorder.processes().collect();
        let threads = processes.into_iter().flat_map(|pid| {
            let threads = tracee::threads_of(pid).unwrap_or_default();
            threads.into_iter().map(move |tid| ThreadId::new(pid, tid))
        });
        let mut found = BTreeMap::new();
        for thread in threads.take(MOST_THREADS) {
            let Some(seen) = look(now, thread.pid, thread.tid) else { continue };
            if let Some(before) = self.seen.get(&thread) {
                round(thread, *before, seen, recorder)?;
            }
            found.insert(thread, seen);
        }
        self.seen = found;
        Ok(())
    }
}

/// Adds the time between two readings of a thread.
fn round(
    ThreadId { pid, tid }: ThreadId,
    before: Reading,
    seen: Reading,
    recorder: &mut Recorder<'_>,
) -> Result<(), SinkError> {
    let (time, span) = (before.time, seen.time - before.time);
    let running = (seen.ran - before.ran).min(span);
    let queued = (seen.queued - before.queued).min(span - running);
    let row = ThreadTime { time, span, pid, tid, running, queued: Some(queued) };
    recorder.push(Fact::ThreadTime(row))?;
    // Time in the run queue after a wait counts as part of the wait: see `Wait`.
    let waited = span - running;
    let waits = seen.switches.saturating_sub(before.switches);
    if waited == Nanos(0) || (waits == 0 && running > Nanos(0)) {
        return Ok(());
    }
    let at = Moment { time: seen.time, pid, tid, cpu: None };
    let site = long_waits::site(at, recorder)?;
    recorder.push(Fact::Wait(Wait {
        time,
        span,
        pid,
        tid,
        kind: WaitKind::Blocked,
        waits: waits.max(1),
        waited,
        object: site.and_then(|site| site.object),
        stack: site.and_then(|site| site.stack),
    }))
}

fn look(time: Nanos, pid: Pid, tid: Tid) -> Option<Reading> {
    let schedstat = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/schedstat")).ok()?;
    let mut words = schedstat.split_ascii_whitespace().map(str::parse);
    let (ran, queued) = (words.next()?.ok()?, words.next()?.ok()?);
    let status = tracee::status::status_of(pid, tid);
    let switches = tracee::status::field(&status, "voluntary_ctxt_switches:")?.parse().ok()?;
    Some(Reading { time, ran: Nanos(ran), queued: Nanos(queued), switches })
}
