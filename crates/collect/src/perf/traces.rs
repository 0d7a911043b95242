//! Memory accesses that Arm's SPE samples: from the trace that the hardware writes to facts.
//!
//! ```text
//!   per CPU:  a ring of its own with a trace next to it; the events of all threads on this CPU write there
//!             switches, ITRACE_START -> who ran when;  AUX -> a part of the trace is there, perhaps cut off
//! ```
//! What for: which rings there are, whose accesses they are and when. What not: packets (`crate::spe`), which event is opened
//! (`events`).
//!
//! Whose: the thread that switches say ran on the CPU at the time of the access, else the one at the end of its part. The kernel may
//! hand the events of a thread over to the next of the same program without an end of the part
//! (`perf_event_context_sched_out`, kernel/events/core.c). When: ticks of the generic timer, compared with CLOCK_MONOTONIC at each
//! reading.
//!
//! Sources: drivers/perf/arm_spe_pmu.c; kernel/events/ring_buffer.c, `perf_aux_output_begin` and `_end`.

use std::collections::VecDeque;
use std::io;

use base::{CpuId, Nanos, Pid, RemoteAddr, Tid};
use facts::SinkError;
use sys::kernels::read_trace_clock;
use sys::perf::{Event, Ring};

use super::events::libc_errno::EPERM;
use super::record::{self, Formats, Record, Switch};
use crate::accesses::Access;
use crate::heap::both;
use crate::recorder::{Moment, Position, Recorder};
use crate::spe::{Missing, Operations};

/// Bytes of a CPU's records, and of its trace; where the limit of locked memory is lower, less. An operation takes 64 bytes, so the
/// trace lasts a second at 4,000 of them.
const RECORDS: usize = 64 << 10;
const TRACE: usize = 256 << 10;
const TRACE_LEAST: usize = 32 << 10;
/// The reader wakes when so much of a trace is there: what the hardware does not announce yet comes late.
pub(super) const WAKES_AT: u32 = 16 << 10;
/// Most switches of a CPU that are kept; more come only where no part of the trace ends with them.
const MOST_SWITCHES: usize = 1 << 16;

/// The trace of a CPU.
struct CpuTrace {
    cpu: CpuId,
    /// The event, and where its first lies among those that take samples.
    event: u32,
    owner: usize,
    ring: Ring,
    /// Its main ID register: which of the makers' tables its sources are from.
    midr: Option<u64>,
    /// Who ran from when on.
    ran: VecDeque<(Nanos, Pid, Tid)>,
    /// How much of the trace records announced.
    announced: u64,
}

/// A record of a trace's ring.
enum Observation {
    Runs((Nanos, Pid, Tid)),
    Part((Nanos, Pid, Tid), (u64, u64), u64),
    Lost(u64),
    Malformed,
    Other,
}

/// An access that waits for what happened before it.
struct Waiting {
    at: Moment,
    event: u32,
    ip: u64,
    in_kernel: bool,
    access: Access,
}

/// All of them.
#[derive(Default)]
pub(super) struct Traces {
    cpus: Vec<CpuTrace>,
    /// In order of time.
    waiting: VecDeque<Waiting>,
    missing: Missing,
    /// Events that stopped because their trace was full.
    stopped: Vec<u32>,
    /// Records that were lost.
    lost: u64,
    /// The counter of the packets and CLOCK_MONOTONIC at the first reading and at the last.
    clocks: Option<[(u64, Nanos); 2]>,
    bytes: Vec<u8>,
}

impl Traces {
    /// The ring of this event on a CPU: where its first lies.
    pub(super) fn owner(&self, event: u32, cpu: CpuId) -> Option<usize> {
        let found = self.cpus.iter().find(|one| (one.event, one.cpu) == (event, cpu));
        found.map(|one| one.owner)
    }

    /// Maps the ring and the trace of the first event of a CPU.
    pub(super) fn add(
        &mut self,
        (number, cpu, owner): (u32, CpuId, usize),
        event: &Event,
    ) -> io::Result<()> {
        let page = sys::process::page_size();
        let mut bytes = TRACE;
        let ring = loop {
            let mut ring = Ring::map(event, RECORDS.max(page) / page)?;
            match ring.map_trace(event, bytes / page) {
                Ok(()) => break ring,
                Err(error)
                    if error.raw_os_error() == Some(EPERM) && bytes > TRACE_LEAST.max(2 * page) =>
                {
                    bytes /= 2;
                }
                Err(error) => return Err(error),
            }
        };
        let midr = midr(cpu);
        let (ran, announced) = (VecDeque::new(), 0);
        self.cpus.push(CpuTrace { cpu, event: number, owner, ring, midr, ran, announced });
        Ok(())
    }

    /// Gives the events their final numbers.
    pub(super) fn number(&mut self, new: impl Fn(u32) -> u32) {
        self.cpus.iter_mut().for_each(|one| one.event = new(one.event));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.cpus.is_empty()
    }

    /// Where the events that own a ring lie.
    pub(super) fn owners(&self) -> impl Iterator<Item = usize> + '_ {
        self.cpus.iter().map(|one| one.owner)
    }

    /// Notes how far the clocks are.
    pub(super) fn compare_clocks(&mut self) {
        if self.cpus.is_empty() {
            return;
        }
        if let Some(now) = both(read_trace_clock) {
            self.clocks = Some([self.clocks.map_or(now, |[first, _]| first), now]);
        }
    }

    /// Reads all that is there; `malformed` counts records.
    pub(super) fn read(&mut self, start: Nanos, malformed: &mut u64) {
        self.compare_clocks();
        for at in 0..self.cpus.len() {
            let lost = self.lost;
            while let Some(bytes) = self.cpus[at].ring.front() {
                let seen = match record::parse(bytes, &Formats::default()) {
                    None => Observation::Malformed,
                    Some((
                        time,
                        Record::Runs { pid, tid } | Record::Switch { pid, tid, to: Switch::In },
                    )) => Observation::Runs((time, pid, tid)),
                    Some((_, Record::Lost { count, .. })) => Observation::Lost(count),
                    Some((time, Record::Trace { pid, tid, offset, bytes, flags })) => {
                        Observation::Part((time, pid, tid), (offset, bytes), flags)
                    }
                    Some(_) => Observation::Other,
                };
                let one = &mut self.cpus[at];
                one.ring.pop();
                match seen {
                    Observation::Malformed => *malformed += 1,
                    Observation::Runs(runs) => {
                        one.ran.push_back(runs);
                        if one.ran.len() > MOST_SWITCHES {
                            one.ran.pop_front();
                        }
                    }
                    Observation::Lost(count) => self.lost += count,
                    Observation::Part(last, part, flags) => {
                        if self.missing.flagged(flags) {
                            self.stopped.push(one.event);
                        }
                        self.part(at, last, part, start);
                    }
                    Observation::Other => {}
                }
            }
            // Without the record that would free its part, a full trace stays full.
            let one = &mut self.cpus[at];
            let end = one.ring.trace_end();
            if self.lost > lost && end > one.announced {
                self.missing.unannounced += end - one.announced;
                one.announced = end;
                one.ring.free_trace(end);
                self.stopped.push(one.event);
            }
        }
        self.waiting.make_contiguous().sort_by_key(|one| one.at.time);
    }

    /// The events that stopped since the last call.
    pub(super) fn take_stopped(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.stopped)
    }

    /// A part of a trace, which ended with this thread.
    fn part(
        &mut self,
        at: usize,
        (end, pid, tid): (Nanos, Pid, Tid),
        (offset, bytes): (u64, u64),
        start: Nanos,
    ) {
        let one = &mut self.cpus[at];
        self.missing.unannounced += offset.saturating_sub(one.announced);
        one.announced = offset.saturating_add(bytes).max(one.announced);
        self.bytes.clear();
        if !one.ring.trace(offset, bytes, &mut self.bytes) {
            self.missing.unannounced += bytes;
        }
        one.ring.free_trace(offset.saturating_add(bytes));
        let mut operations = Operations::new(&self.bytes, offset);
        for operation in operations.by_ref() {
            let Some(access) = operation.access(one.midr) else { continue };
            self.missing.saturated += u64::from(operation.is_saturated());
            let stamped = operation.time.zip(self.clocks);
            let time = stamped.map_or(end, |(ticks, clocks)| time(ticks, clocks)).min(end);
            let before = one.ran.partition_point(|(since, ..)| *since <= time);
            let running = before.checked_sub(1).and_then(|at| one.ran.get(at));
            let (pid, tid) = running.map_or((pid, tid), |(_, pid, tid)| (*pid, *tid));
            match (pid.0, tid.0) {
                // The idle thread's are nobody's.
                (0, 0) => continue,
                (1.., 1..) => {}
                // It has ended: the kernel gives -1.
                _ => {
                    self.missing.unowned += 1;
                    continue;
                }
            }
            let moment = Moment { time: time - start, pid, tid, cpu: Some(one.cpu) };
            self.waiting.push_back(Waiting {
                at: moment,
                event: one.event,
                ip: operation.ip,
                in_kernel: operation.in_kernel,
                access,
            });
        }
        self.missing.bad_bytes += operations.bad;
        // The next part begins later.
        let done = one.ran.partition_point(|(since, ..)| *since <= end).saturating_sub(1);
        one.ran.drain(..done);
    }

    /// Passes on the accesses up to a time since the start; `weight` is what each of an event stands for.
    pub(super) fn pass_on(
        &mut self,
        until: Nanos,
        weight: impl Fn(u32) -> u64,
        left_out: Option<Pid>,
        recorder: &mut Recorder<'_>,
    ) -> Result<(), SinkError> {
        let due = self.waiting.partition_point(|one| one.at.time <= until);
        for one in self.waiting.drain(..due) {
            if left_out == Some(one.at.pid) {
                continue;
            }
            let address = [one.ip];
            let (kernel, chain): (&[u64], &[u64]) =
                if one.in_kernel { (&address, &[]) } else { (&[], &address) };
            let position =
                Position { kernel, ip: RemoteAddr(one.ip), user: None, chain, guest: None };
            let weight = weight(one.event);
            recorder.happened(one.at, &[(one.event, weight)], position)?;
            recorder.accessed(one.access.sample(one.at, one.event, weight), position)?;
        }
        Ok(())
    }

    /// Records of who ran, and parts of the trace, that did not fit into the rings.
    pub(super) fn lost(&self) -> u64 {
        self.lost
    }

    /// What a reader must know.
    pub(super) fn notes(&self, events: &str) -> Vec<String> {
        self.missing.notes(events)
    }
}

/// CLOCK_MONOTONIC at a count of the packets' counter, by the speed between two readings.
fn time(ticks: u64, [first, last]: [(u64, Nanos); 2]) -> Nanos {
    let speed = (last.1 - first.1).0 as f64 / last.0.wrapping_sub(first.0).max(1) as f64;
    let after = ticks.wrapping_sub(last.0).cast_signed() as f64 * speed;
    // `as` saturates.
    Nanos(last.1.0.saturating_add_signed(after as i64))
}

/// The main ID register of a CPU: Documentation/arch/arm64/cpu-feature-registers.rst.
fn midr(cpu: CpuId) -> Option<u64> {
    let path = format!("/sys/devices/system/cpu/cpu{}/regs/identification/midr_el1", cpu.0);
    let text = std::fs::read_to_string(path).ok()?;
    u64::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok()
}
