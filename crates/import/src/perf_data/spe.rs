//! Arm SPE in a perf.data file: the parts of the trace, whose they are, and when.
//!
//! What for: sampled accesses in order of time, as if each were a sample of the event. What not: the packets (`collect::spe`).
//!
//! Whose: the thread of the buffer, else of the context packet, else the one that the kernel's records say ran on that CPU (a
//! switch, or the start of the trace). An access of which none of these tells the thread is counted and left out.
//! When: the packet's time stamp, converted as the file says; without either, the record that announced this part of the trace.
//!
//! Source: Linux, tools/perf/util/{auxtrace,tsc,arm-spe}.c and event.h; include/uapi/linux/perf_event.h.

use std::collections::HashMap;

use base::{Pid, Tid};
use linux_perf_data::linux_perf_event_reader as reader;
use linux_perf_data::{Auxtrace, Endianness, RawUserRecord, UserRecordType};
use reader::{EventRecord, RawEventRecord, RecordType};

use collect::accesses::Access;
use collect::spe::{Missing, Operations};

/// Most accesses that are kept; of more, one of every two, four and so on.
const MOST_ACCESSES: usize = 1 << 21;
/// `ARM_SPE_MAGIC`, then: CPU, number of parameters, MIDR.
const OF_A_CPU: u64 = 0x1010_1010_1010_1010;

/// An access of the trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Traced {
    /// In the clock of the file's records.
    pub(super) time: u64,
    pub(super) cpu: Option<u32>,
    /// The thread, where the trace itself tells it.
    pub(super) tid: Option<i32>,
    pub(super) ip: u64,
    pub(super) in_kernel: bool,
    pub(super) access: Access,
}

/// An access with the thread that made it.
pub(super) struct OwnedAccess {
    pub(super) traced: Traced,
    pub(super) pid: Pid,
    pub(super) tid: Tid,
}

/// A part of the trace that a record announced: `aux_offset`, `aux_size`, when.
type Announced = (u64, u64, u64);

/// From ticks of the generic timer to the clock of the records: PERF_RECORD_TIME_CONV.
#[derive(Clone, Copy, Default)]
struct Conversion {
    shift: u64,
    multiplier: u64,
    zero: u64,
    /// Where the timer has fewer than 64 bits: `time_cycles` and `time_mask`.
    short: Option<(u64, u64)>,
}

/// What was read of the trace.
#[derive(Default)]
pub(super) struct Trace {
    accesses: Vec<Traced>,
    /// The next of them.
    next: usize,
    /// One access in so many, a power of two, was kept.
    doublings: u32,
    seen: u64,
    conversion: Option<Conversion>,
    /// Main ID registers: of CPUs, and of the machine.
    registers: HashMap<u32, u64>,
    register: Option<u64>,
    /// By CPU, or by thread where a buffer is of one.
    announced: HashMap<(bool, u32), Vec<Announced>>,
    /// Accesses without a time stamp wait for what announces them: number of the access, buffer, place in it.
    untimed: Vec<(usize, (bool, u32), u64)>,
    /// The process of each thread.
    processes: HashMap<i32, i32>,
    /// The thread that runs on each CPU.
    running: HashMap<u32, (i32, i32)>,
    /// Sampled operations.
    pub(super) operations: u64,
    missing: Missing,
}

impl Trace {
    /// `cpuid` is the feature of that name: the main ID register of the machine.
    pub(super) fn on(&mut self, cpuid: Option<&str>) {
        let digits = cpuid.map(|text| text.trim().trim_start_matches("0x"));
        self.register = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
    }

    /// A record that perf wrote itself, of the first reading.
    pub(super) fn about(&mut self, record: &RawUserRecord<'_>) {
        let bytes = record.data.as_slice();
        let word = |number: usize| {
            let bytes = bytes.get(number.checked_mul(8)?..)?.first_chunk::<8>()?;
            Some(match record.endian {
                Endianness::LittleEndian => u64::from_le_bytes(*bytes),
                Endianness::BigEndian => u64::from_be_bytes(*bytes),
            })
        };
        match record.record_type {
            UserRecordType::PERF_TIME_CONV => {
                let (Some(shift), Some(multiplier), Some(zero)) = (word(0), word(1), word(2))
                else {
                    return;
                };
                let flags = (bytes.get(40), bytes.get(41));
                // `cap_user_time_zero`, `cap_user_time_short`: not in older files, whose times are then whole.
                let short = (flags.1 == Some(&1)).then(|| word(3).zip(word(4))).flatten();
                let usable = flags.0 != Some(&0) && multiplier > 0 && shift < 64;
                self.conversion = usable.then_some(Conversion { shift, multiplier, zero, short });
            }
            UserRecordType::PERF_AUXTRACE_INFO => {
                // Version 2 has a head of its own, then a part for each CPU; version 1 two words.
                let mut at = word(2).and_then(|head| usize::try_from(head).ok()).unwrap_or(0);
                at = at.saturating_add(1);
                while word(at) == Some(OF_A_CPU) {
                    let (Some(cpu), Some(more), Some(midr)) =
                        (word(at + 1), word(at + 2), word(at + 3))
                    else {
                        return;
                    };
                    self.registers.insert(cpu as u32, midr);
                    let Ok(more) = usize::try_from(more) else { return };
                    at = at.saturating_add(3).saturating_add(more);
                }
            }
            _ => {}
        }
    }

    /// A part of the trace.
    pub(super) fn part(&mut self, part: &Auxtrace<'_>) {
        let bytes = part.aux_data.as_slice();
        // -1: of whichever CPU, or thread.
        let cpu = Some(part.cpu).filter(|cpu| *cpu != u32::MAX);
        let thread = i32::try_from(part.tid).ok().filter(|tid| cpu.is_none() && *tid > 0);
        let buffer = (cpu.is_some(), cpu.unwrap_or(part.tid));
        let midr = cpu.and_then(|cpu| self.registers.get(&cpu).copied()).or(self.register);
        let mut operations = Operations::new(&bytes, part.offset);
        while let Some(operation) = operations.next() {
            self.operations += 1;
            let Some(access) = operation.access(midr) else { continue };
            self.missing.saturated += u64::from(operation.is_saturated());
            self.seen += 1;
            if (self.seen - 1) & ((1 << self.doublings) - 1) != 0 {
                continue;
            }
            let ticks = operation.time.filter(|ticks| *ticks > 0);
            let time = ticks.zip(self.conversion).map(|(ticks, how)| how.time(ticks));
            if time.is_none() {
                let place = part.offset.saturating_add(operations.place());
                self.untimed.push((self.accesses.len(), buffer, place));
            }
            let context = operation.context.and_then(|number| i32::try_from(number).ok());
            let (ip, in_kernel) = (operation.ip, operation.in_kernel);
            let tid = thread.or(context.filter(|tid| *tid > 0));
            self.accesses.push(Traced { time: time.unwrap_or(0), cpu, tid, ip, in_kernel, access });
            if self.accesses.len() == MOST_ACCESSES {
                self.halve();
            }
        }
        self.missing.bad_bytes += operations.bad;
    }

    /// Keeps every second access.
    fn halve(&mut self) {
        let mut number = 0_usize;
        self.accesses.retain(|_| {
            number += 1;
            number % 2 == 1
        });
        self.untimed.retain_mut(|(number, ..)| {
            let kept = *number % 2 == 0;
            *number /= 2;
            kept
        });
        self.doublings += 1;
    }

    /// A record of the kernel, of the first reading.
    pub(super) fn see(&mut self, raw: &RawEventRecord<'_>) {
        let who = raw.common_data().unwrap_or_default();
        if let (Some(pid), Some(tid)) = (who.pid, who.tid) {
            self.belongs(pid, tid);
        }
        match raw.parse() {
            Ok(EventRecord::Comm(named)) => self.belongs(named.pid, named.tid),
            Ok(EventRecord::Fork(born)) => self.belongs(born.pid, born.tid),
            _ => {}
        }
        if raw.record_type != RecordType::AUX {
            return;
        }
        let bytes = raw.data.as_slice();
        let word =
            |number: usize| Some(u64::from_le_bytes(*bytes.get(number * 8..)?.first_chunk::<8>()?));
        let (Some(offset), Some(size), Some(flags)) = (word(0), word(1), word(2)) else { return };
        self.missing.flagged(flags);
        let Some(time) = raw.timestamp() else { return };
        let buffers = [
            who.cpu.map(|cpu| (true, cpu)),
            who.tid.and_then(|tid| u32::try_from(tid).ok()).map(|tid| (false, tid)),
        ];
        for buffer in buffers.into_iter().flatten() {
            self.announced.entry(buffer).or_default().push((offset, size, time));
        }
    }

    fn belongs(&mut self, pid: i32, tid: i32) {
        if pid > 0 && tid > 0 {
            self.processes.insert(tid, pid);
        }
    }

    /// After the first reading: all in order of time.
    pub(super) fn sort(&mut self) {
        for parts in self.announced.values_mut() {
            parts.sort_unstable();
        }
        for (number, buffer, place) in std::mem::take(&mut self.untimed) {
            let Some(parts) = self.announced.get(&buffer) else { continue };
            // The place is behind the operation.
            let before = parts.partition_point(|(offset, ..)| *offset < place);
            let found = before.checked_sub(1).and_then(|at| parts.get(at));
            if let (Some((_, _, time)), Some(one)) = (found, self.accesses.get_mut(number)) {
                one.time = *time;
            }
        }
        // What nothing announced and nothing stamped has no time.
        let all = self.accesses.len();
        self.accesses.retain(|one| one.time > 0);
        self.missing.unowned += (all - self.accesses.len()) as u64;
        self.accesses.sort_by_key(|one| one.time);
    }

    /// The first and the last moment.
    pub(super) fn span(&self) -> Option<(u64, u64)> {
        Some((self.accesses.first()?.time, self.accesses.last()?.time))
    }

    /// How many accesses one stands for.
    pub(super) fn each_stands_for(&self) -> u64 {
        1 << self.doublings
    }

    /// Notes which thread runs on which CPU, from a record of the second reading.
    pub(super) fn ran(&mut self, raw: &RawEventRecord<'_>) {
        let kind = raw.record_type;
        let tells = [RecordType::SWITCH, RecordType::SWITCH_CPU_WIDE, RecordType::ITRACE_START];
        if !tells.contains(&kind) {
            return;
        }
        let who = raw.common_data().unwrap_or_default();
        let Some(cpu) = who.cpu else { return };
        let own = who.pid.zip(who.tid);
        let next = match raw.parse() {
            Ok(EventRecord::ContextSwitch(reader::ContextSwitchRecord::Out {
                next_pid,
                next_tid,
                ..
            })) => next_pid.zip(next_tid),
            Ok(_) => own,
            Err(_) => return,
        };
        match next {
            Some(next) => self.running.insert(cpu, next),
            None => self.running.remove(&cpu),
        };
    }

    /// The next access up to a time, with the thread that made it.
    pub(super) fn take_until(&mut self, time: u64) -> Option<OwnedAccess> {
        loop {
            let one = *self.accesses.get(self.next).filter(|one| one.time < time)?;
            self.next += 1;
            let running = one.cpu.and_then(|cpu| self.running.get(&cpu)).copied();
            let named = one.tid.and_then(|tid| Some((*self.processes.get(&tid)?, tid)));
            match named.or(running.filter(|_| one.tid.is_none())) {
                Some((pid, tid)) if tid > 0 => {
                    return Some(OwnedAccess { traced: one, pid: Pid(pid), tid: Tid(tid) });
                }
                // The idle task's are nobody's.
                Some(_) => {}
                None => self.missing.unowned += 1,
            }
        }
    }

    /// What a reader must know.
    pub(super) fn notes(&self, event: &str) -> Vec<String> {
        let mut notes = Vec::new();
        if self.doublings > 0 {
            notes.push(format!(
                "one of every {} accesses of {event} was kept",
                self.each_stands_for()
            ));
        }
        notes.extend(self.missing.notes(event));
        notes
    }
}

impl Conversion {
    /// `tsc_to_perf_time`.
    fn time(self, ticks: u64) -> u64 {
        let ticks = match self.short {
            Some((cycles, mask)) => cycles.wrapping_add(ticks.wrapping_sub(cycles) & mask),
            None => ticks,
        };
        let (whole, rest) = (ticks >> self.shift, ticks & ((1 << self.shift) - 1));
        self.zero
            .wrapping_add(whole.wrapping_mul(self.multiplier))
            .wrapping_add(rest.wrapping_mul(self.multiplier) >> self.shift)
    }
}
