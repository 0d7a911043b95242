//! Records of the perf ring: bytes -> named fields.
//!
//! What not: their meaning (`mod`, `switches`). Layouts: `include/uapi/linux/perf_event.h`, `enum perf_event_type`.
//! Our events use the same sample fields, except for the clocks' registers:
//! ```text
//!   sample:  header | identifier | ip | pid tid | time | addr | cpu 0 | period
//!                   | nr, nr addresses (kernel part of the call chain)
//!                   | size:u32, bytes of a tracepoint (of another event 4 that mean nothing)
//!                   | nr, nr branches of 24 bytes (where the event has them)
//!                   | abi, first argument, registers (none when abi is 0; all general ones of the clock)
//!                   | size, bytes, size really filled
//!                   | weight | source of the data (where the event has them) | size of the page of the address (likewise)
//!   others:  header | their fields | pid tid | time | cpu 0 | identifier      (sample_id_all)
//! ```
//! The kernel writes them, yet every length is checked: a record that does not fit is dropped and counted.

use std::collections::HashSet;

use base::{CpuId, FileOffset, Nanos, Pid, RemoteAddr, Tid};
use facts::GENERAL_REGISTERS;
use sys::perf::USER_REGISTER_COUNT;

use crate::address_space::Registers;

/// PERF_RECORD_* numbers.
mod kind {
    pub const LOST: u32 = 2;
    pub const COMM: u32 = 3;
    pub const EXIT: u32 = 4;
    pub const THROTTLE: u32 = 5;
    pub const FORK: u32 = 7;
    pub const SAMPLE: u32 = 9;
    pub const MMAP2: u32 = 10;
    pub const AUX: u32 = 11;
    pub const ITRACE_START: u32 = 12;
    pub const SWITCH: u32 = 14;
    pub const SWITCH_CPU_WIDE: u32 = 15;
}

const MISC_COMM_EXEC: u16 = 1 << 13;
const MISC_SWITCH_OUT: u16 = 1 << 13;
const MISC_SWITCH_OUT_PREEMPT: u16 = 1 << 14;
/// Call chains hold markers instead of addresses where the context changes (`PERF_CONTEXT_*`).
const CONTEXT_MARKERS_FROM: u64 = -4095_i64 as u64;
const ABI_64: u64 = 2;
/// Registers of a clock sample.
const ALL_COUNT: usize = sys::perf::ALL_REGISTERS.count_ones() as usize;
const ID_TRAILER: usize = 32;
/// Bytes of a `struct perf_branch_entry`.
const BRANCH: usize = 24;
const PROT_EXEC: u32 = 4;

/// The identifiers of events whose samples differ from others.
#[derive(Clone, Default)]
pub struct Formats {
    /// The clocks: their samples have all registers, those of other events few.
    pub clocks: HashSet<u64>,
    /// Events whose samples have the branches before them.
    pub with_branches: HashSet<u64>,
    /// Events whose samples have a memory access.
    pub with_access: HashSet<u64>,
    /// Those of them that have the size of its page.
    pub with_page: HashSet<u64>,
}

/// A sample's fields.
#[derive(Clone, Copy)]
pub struct SampleRecord<'a> {
    /// The event.
    pub identifier: u64,
    /// Instruction pointer.
    pub ip: RemoteAddr,
    /// The process.
    pub pid: Pid,
    /// The thread.
    pub tid: Tid,
    /// The CPU.
    pub cpu: CpuId,
    /// Data address (faults).
    pub address: RemoteAddr,
    /// The number of events that this sample represents.
    pub period: u64,
    chain: &'a [u8],
    /// The record of a tracepoint.
    pub raw: &'a [u8],
    /// `struct perf_branch_entry`, the latest branch first.
    branches: &'a [u8],
    /// First argument of the system call that the thread is in; meaningless elsewhere. `None` for 32-bit processes.
    pub argument: Option<RemoteAddr>,
    /// User registers, when the process is a 64-bit one.
    pub registers: Option<Registers>,
    /// All of [`sys::perf::ALL_REGISTERS`], of a clock sample in such a process.
    all: Option<&'a [u8]>,
    /// Copied user stack.
    pub stack: &'a [u8],
    /// Weight and source of the data, of an event with accesses.
    pub access: Option<(u64, u64)>,
    /// Bytes of the page of the address, likewise; 0 where the kernel found none.
    pub page: Option<u64>,
}

impl SampleRecord<'_> {
    /// All general registers, by their numbers in the encoding, of a clock sample in a 64-bit process where they have a meaning.
    pub fn general(&self) -> Option<[u64; GENERAL_REGISTERS]> {
        let bytes = self.all?;
        let mut general = [0; GENERAL_REGISTERS];
        for (slot, at) in general.iter_mut().zip(sys::perf::GENERAL_REGISTERS?) {
            *slot = u64_at(bytes, at * 8)?;
        }
        Some(general)
    }

    /// `from`, `to` and flags of the branches before it, the latest first.
    pub fn branches(&self) -> impl Iterator<Item = [u64; 3]> + '_ {
        let entries = self.branches.as_chunks::<BRANCH>().0.iter();
        entries.map(|entry| [0, 8, 16].map(|at| u64_at(entry, at).unwrap_or(0)))
    }

    /// Kernel addresses, innermost first.
    pub fn kernel_chain(&self) -> impl Iterator<Item = u64> + '_ {
        words(self.chain).filter(|word| *word < CONTEXT_MARKERS_FROM)
    }
}

/// The direction of a switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Switch {
    /// Onto a CPU.
    In,
    /// Off its CPU: it waits for something.
    Blocked,
    /// Off its CPU although it could run.
    Preempted,
}

/// The content of a record.
pub enum Record<'a> {
    Sample(SampleRecord<'a>),
    Mmap {
        pid: Pid,
        start: RemoteAddr,
        end: RemoteAddr,
        offset: FileOffset,
        name: &'a [u8],
    },
    Comm {
        pid: Pid,
        tid: Tid,
        name: &'a [u8],
        exec: bool,
    },
    Fork {
        pid: Pid,
        parent_pid: Pid,
        tid: Tid,
        parent_tid: Tid,
    },
    Exit {
        pid: Pid,
        tid: Tid,
    },
    Lost {
        identifier: u64,
        count: u64,
    },
    Switch {
        pid: Pid,
        tid: Tid,
        to: Switch,
    },
    /// A thread that runs on the CPU from now on: it came there, while all threads are observed, or the trace begins with it.
    Runs {
        pid: Pid,
        tid: Tid,
    },
    /// A part of a trace is there, and who ran at its end.
    Trace {
        pid: Pid,
        tid: Tid,
        offset: u64,
        bytes: u64,
        flags: u64,
    },
    /// The kernel stops an event for the rest of a timer tick.
    Throttle,
    /// A kind that we did not request.
    Other,
}

/// Parses a whole record, header included. `None` if it is malformed.
#[must_use]
pub fn parse<'a>(bytes: &'a [u8], formats: &Formats) -> Option<(Nanos, Record<'a>)> {
    let kind = u32_at(bytes, 0)?;
    let misc = u16::from_le_bytes(*bytes.get(4..)?.first_chunk()?);
    let body = bytes.get(8..)?;
    if kind == kind::SAMPLE {
        return sample(body, formats).map(|(time, record)| (time, Record::Sample(record)));
    }
    let trailer = body.len().checked_sub(ID_TRAILER)?;
    let time = Nanos(u64_at(body, trailer + 8)?);
    let body = &body[..trailer];
    let pid = |at| u32_at(body, at).map(|pid| Pid(pid as i32));
    let tid = |at| u32_at(body, at).map(|tid| Tid(tid as i32));
    let record = match kind {
        kind::LOST => Record::Lost { identifier: u64_at(body, 0)?, count: u64_at(body, 8)? },
        kind::COMM => {
            let exec = misc & MISC_COMM_EXEC != 0;
            Record::Comm { pid: pid(0)?, tid: tid(4)?, name: until_nul(body.get(8..)?), exec }
        }
        kind::FORK => {
            Record::Fork { pid: pid(0)?, parent_pid: pid(4)?, tid: tid(8)?, parent_tid: tid(12)? }
        }
        kind::EXIT => Record::Exit { pid: pid(0)?, tid: tid(8)? },
        kind::MMAP2 => {
            // pid tid | addr len pgoff | maj min ino generation (24 bytes) | prot flags | name
            let start = u64_at(body, 8)?;
            let end = start.checked_add(u64_at(body, 16)?)?;
            if u32_at(body, 56)? & PROT_EXEC == 0 {
                return Some((time, Record::Other));
            }
            Record::Mmap {
                pid: pid(0)?,
                start: RemoteAddr(start),
                end: RemoteAddr(end),
                offset: FileOffset(u64_at(body, 24)?),
                name: until_nul(body.get(64..)?),
            }
        }
        kind::AUX => Record::Trace {
            pid: Pid(u32_at(bytes, 8 + trailer)? as i32),
            tid: Tid(u32_at(bytes, 12 + trailer)? as i32),
            offset: u64_at(body, 0)?,
            bytes: u64_at(body, 8)?,
            flags: u64_at(body, 16)?,
        },
        kind::ITRACE_START => Record::Runs { pid: pid(0)?, tid: tid(4)? },
        kind::SWITCH_CPU_WIDE if misc & MISC_SWITCH_OUT == 0 => Record::Runs {
            pid: Pid(u32_at(bytes, 8 + trailer)? as i32),
            tid: Tid(u32_at(bytes, 12 + trailer)? as i32),
        },
        kind::SWITCH => {
            let to = match misc {
                misc if misc & MISC_SWITCH_OUT == 0 => Switch::In,
                misc if misc & MISC_SWITCH_OUT_PREEMPT == 0 => Switch::Blocked,
                _ => Switch::Preempted,
            };
            // No fields of its own: the thread is in the trailer.
            let pid = Pid(u32_at(bytes, 8 + trailer)? as i32);
            Record::Switch { pid, tid: Tid(u32_at(bytes, 12 + trailer)? as i32), to }
        }
        kind::THROTTLE => Record::Throttle,
        _ => Record::Other,
    };
    Some((time, record))
}

fn sample<'a>(body: &'a [u8], formats: &Formats) -> Option<(Nanos, SampleRecord<'a>)> {
    let mut rest = body;
    let mut take = |length: usize| {
        let (taken, after) = rest.split_at_checked(length)?;
        rest = after;
        Some(taken)
    };
    let fixed = take(56)?;
    let identifier = u64_at(fixed, 0)?;
    let is_clock = formats.clocks.contains(&identifier);
    let sampled = if is_clock { ALL_COUNT } else { 1 + USER_REGISTER_COUNT };
    let count = usize::try_from(u64_at(take(8)?, 0)?).ok()?;
    let chain = take(count.checked_mul(8)?)?;
    let raw_size = u32_at(take(4)?, 0)?;
    let raw = take(usize::try_from(raw_size).ok()?)?;
    let branches = if formats.with_branches.contains(&identifier) {
        let count = usize::try_from(u64_at(take(8)?, 0)?).ok()?;
        take(count.checked_mul(BRANCH)?)?
    } else {
        &[][..]
    };
    let abi = u64_at(take(8)?, 0)?;
    let registers = if abi == 0 { &[][..] } else { take(sampled * 8)? };
    let stack = match usize::try_from(u64_at(take(8)?, 0)?).ok()? {
        0 => &[][..],
        size => {
            let copied = take(size)?;
            let filled = usize::try_from(u64_at(take(8)?, 0)?).ok()?;
            copied.get(..filled)?
        }
    };
    let access = if formats.with_access.contains(&identifier) {
        Some((u64_at(take(8)?, 0)?, u64_at(take(8)?, 0)?))
    } else {
        None
    };
    let page =
        if formats.with_page.contains(&identifier) { Some(u64_at(take(8)?, 0)?) } else { None };
    let (argument, named) = match abi {
        ABI_64 => registers_of(registers, is_clock)?,
        _ => (None, None),
    };
    let record = SampleRecord {
        identifier,
        ip: RemoteAddr(u64_at(fixed, 8)?),
        pid: Pid(u32_at(fixed, 16)? as i32),
        tid: Tid(u32_at(fixed, 20)? as i32),
        address: RemoteAddr(u64_at(fixed, 32)?),
        cpu: CpuId(u32_at(fixed, 40)?),
        period: u64_at(fixed, 48)?,
        chain,
        raw,
        branches,
        argument,
        registers: named,
        all: (abi == ABI_64 && is_clock).then_some(registers),
        stack,
        access,
        page,
    };
    Some((Nanos(u64_at(fixed, 24)?), record))
}

/// First argument, and registers for unwinding; `all` says that all general registers are there.
fn registers_of(bytes: &[u8], all: bool) -> Option<(Option<RemoteAddr>, Option<Registers>)> {
    let (places, argument) = match all {
        true => sys::perf::positions_in_all(),
        false => (std::array::from_fn(|place| place + 1), 0),
    };
    let mut named: Registers = [0; USER_REGISTER_COUNT];
    for (slot, at) in named.iter_mut().zip(places) {
        *slot = u64_at(bytes, at * 8)?;
    }
    Some((u64_at(bytes, argument * 8).map(RemoteAddr), Some(named)))
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word))
}

fn until_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or(bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(bytes: &[u8]) -> Option<(Nanos, Record<'_>)> {
        super::parse(bytes, &Formats::default())
    }

    fn record(kind: u32, misc: u16, words: &[u64], tail: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(kind.to_le_bytes());
        bytes.extend(misc.to_le_bytes());
        bytes.extend([0, 0]);
        words.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        bytes.extend(tail);
        let size = u16::try_from(bytes.len()).unwrap();
        bytes[6..8].copy_from_slice(&size.to_le_bytes());
        bytes
    }

    fn a_sample() -> Vec<u8> {
        let chain = [2, -128_i64 as u64, 0xffff_ffff_8100_0000];
        let fixed = [77, 0x1234, 5 << 32 | 4, 999, 0xdead, 1, 1_000_000];
        let raw = [0x1234_5678 << 32 | 12, 0x9abc];
        let user = [2, 0xa, 0xb, 0x5, 0x1, 8, 0x4242, 8];
        record(9, 0, &[&fixed[..], &chain[..], &raw[..], &user[..]].concat(), &[])
    }

    #[test]
    fn a_clock_sample_has_all_registers() {
        let fixed = [78, 0x1234, 5 << 32 | 4, 999, 0xdead, 1, 1_000_000];
        // ax bx cx dx si di bp sp ip, r8..r15
        let registers = [10, 13, 11, 12, 16, 17, 15, 14, 0x1234, 18, 19, 20, 21, 22, 23, 24, 25];
        let user = [&registers[..], &[0][..]].concat();
        let words = [&fixed[..], &[0][..]].concat();
        let mut bytes = record(9, 0, &words, &[]);
        bytes.extend(4u32.to_le_bytes());
        bytes.extend([0; 4]);
        bytes.extend(2u64.to_le_bytes());
        user.iter().for_each(|word: &u64| bytes.extend(word.to_le_bytes()));
        let clocks = Formats { clocks: HashSet::from([78]), ..Formats::default() };
        let Some((_, Record::Sample(sample))) = super::parse(&bytes, &clocks) else { panic!() };
        assert_eq!(sample.general(), Some(std::array::from_fn(|number| 10 + number as u64)));
        assert_eq!(sample.registers, Some([15, 14, 0x1234]));
        assert_eq!(sample.argument, Some(RemoteAddr(17)));
        for end in 0..bytes.len() {
            assert!(super::parse(&bytes[..end], &clocks).is_none(), "cut at {end}");
        }
    }

    #[test]
    fn a_sample_has_its_fields() {
        let bytes = a_sample();
        let Some((time, Record::Sample(sample))) = parse(&bytes) else { panic!("not a sample") };
        assert_eq!(
            (time, sample.identifier, sample.pid, sample.tid),
            (Nanos(999), 77, Pid(4), Tid(5))
        );
        assert_eq!((sample.ip, sample.address), (RemoteAddr(0x1234), RemoteAddr(0xdead)));
        assert_eq!((sample.cpu, sample.period), (CpuId(1), 1_000_000));
        assert_eq!(sample.raw, [0x78, 0x56, 0x34, 0x12, 0xbc, 0x9a, 0, 0, 0, 0, 0, 0]);
        assert_eq!(sample.argument, Some(RemoteAddr(0xa)));
        assert_eq!(sample.kernel_chain().collect::<Vec<_>>(), [0xffff_ffff_8100_0000]);
        assert_eq!(
            (sample.registers, sample.stack),
            (Some([0xb, 0x5, 0x1]), &0x4242_u64.to_le_bytes()[..])
        );
    }

    #[test]
    fn no_prefix_of_a_record_panics() {
        let trailer = [5 << 32 | 4, 1, 0, 7];
        let mapping = [4, 0x1000, 0x2000, 0, 0, 0, 0, 4, u64::from_le_bytes(*b"/bin/x\0\0")];
        for whole in [
            a_sample(),
            record(10, 0, &[&mapping[..], &trailer[..]].concat(), &[]),
            record(2, 0, &[&[77, 3][..], &trailer[..]].concat(), &[]),
            record(3, MISC_COMM_EXEC, &[&[4, 0x41][..], &trailer[..]].concat(), &[]),
            record(14, MISC_SWITCH_OUT, &trailer, &[]),
        ] {
            assert!(parse(&whole).is_some());
            for end in 0..whole.len() {
                let _ = parse(&whole[..end]);
                let mut absurd = whole.clone();
                absurd[end] = 0xff;
                let _ = parse(&absurd);
            }
        }
    }

    #[test]
    fn switches_say_who_and_why() {
        let to = |misc| match parse(&record(14, misc, &[5 << 32 | 4, 11, 0, 7], &[])) {
            Some((Nanos(11), Record::Switch { pid: Pid(4), tid: Tid(5), to })) => to,
            _ => panic!("not a switch"),
        };
        assert_eq!(to(0), Switch::In);
        assert_eq!(to(MISC_SWITCH_OUT), Switch::Blocked);
        assert_eq!(to(MISC_SWITCH_OUT | MISC_SWITCH_OUT_PREEMPT), Switch::Preempted);
    }

    #[test]
    fn mappings_forks_and_losses() {
        let trailer = [5 << 32 | 4, 11, 0, 7];
        let prot_exec = 4;
        let words =
            [4, 0x1000, 0x2000, 0x300, 0, 0, 0, prot_exec, u64::from_le_bytes(*b"/bin/x\0\0")];
        let bytes = record(10, 0, &[&words[..], &trailer[..]].concat(), &[]);
        let Some((Nanos(11), Record::Mmap { pid, start, end, offset, name })) = parse(&bytes)
        else {
            panic!()
        };
        assert_eq!((pid, start, end), (Pid(4), RemoteAddr(0x1000), RemoteAddr(0x3000)));
        assert_eq!((offset, name), (FileOffset(0x300), &b"/bin/x"[..]));
        let bytes = record(2, 0, &[&[77, 3][..], &trailer[..]].concat(), &[]);
        assert!(matches!(parse(&bytes), Some((_, Record::Lost { identifier: 77, count: 3 }))));
        let bytes =
            record(7, 0, &[&[9 | 4 << 32, 10 | 5 << 32, 0][..], &trailer[..]].concat(), &[]);
        let Some((_, Record::Fork { pid, parent_pid, tid, parent_tid })) = parse(&bytes) else {
            panic!()
        };
        assert_eq!((pid, parent_pid, tid, parent_tid), (Pid(9), Pid(4), Tid(10), Tid(5)));
    }
}
