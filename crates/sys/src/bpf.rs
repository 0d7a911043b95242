//! bpf(2): maps, and programs that the kernel runs at its tracepoints.
//!
//! What for: events that are too many to be handed over one by one are summed where they happen. Nothing is compiled:
//! a program is a list of instruction words. What not: the task of a program (`collect::kernel`).
//!
//! Sources: `include/uapi/linux/bpf.h` for numbers and layouts;
//! `Documentation/bpf/standardization/instruction-set.rst` for words. Permitted for root, or with CAP_BPF and
//! CAP_PERFMON. Assumption: whatever the words are, the kernel's verifier refuses a program that could harm the
//! kernel.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::perf::Event;

const MAP_CREATE: libc::c_long = 0;
const MAP_LOOKUP: libc::c_long = 1;
const MAP_UPDATE: libc::c_long = 2;
const MAP_DELETE: libc::c_long = 3;
const PROG_LOAD: libc::c_long = 5;
const OBJ_GET_INFO: libc::c_long = 15;
const RAW_TRACEPOINT_OPEN: libc::c_long = 17;
const MAP_LOOKUP_BATCH: libc::c_long = 24;

/// The kind of a map (`enum bpf_map_type`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum MapKind {
    /// Arbitrary keys, with all memory allocated in advance: programs may add keys wherever they run.
    Hash = 1,
    /// Keys are `u32` from 0; all values exist.
    Array = 2,
}

/// A table that programs and we share.
#[derive(Debug)]
pub struct Map {
    fd: OwnedFd,
    key: usize,
    value: usize,
    entries: u32,
}

impl Map {
    /// Creates an empty map with room for `entries`, with keys and values of this many bytes.
    pub fn new(kind: MapKind, key: usize, value: usize, entries: u32) -> io::Result<Map> {
        // map_type, key_size, value_size, max_entries, map_flags and what follows: 0.
        let mut attr = [0u32; 30];
        attr[..4].copy_from_slice(&[kind as u32, key as u32, value as u32, entries]);
        // Safety: a live structure, longer than the command reads; the rest of it is 0, which means the default.
        let fd = owned(unsafe { bpf(MAP_CREATE, attr.as_mut_ptr().cast(), size_of_val(&attr)) })?;
        Ok(Map { fd, key, value, entries })
    }

    /// Its number in a program's instruction that loads it.
    #[must_use]
    pub fn number(&self) -> i32 {
        self.fd.as_raw_fd()
    }

    /// The value of a key; `None` if there is none.
    pub fn lookup(&self, key: &[u8]) -> io::Result<Option<Vec<u8>>> {
        assert_eq!(key.len(), self.key, "a key of this map");
        let mut value = vec![0u8; self.value];
        let mut attr = [u64::from(self.number() as u32), key.as_ptr() as u64, 0, 0];
        attr[2] = value.as_mut_ptr() as u64;
        // Safety: the kernel reads `key` bytes and writes `value` bytes, the sizes that the map was made with.
        match check(unsafe { bpf(MAP_LOOKUP, attr.as_mut_ptr().cast(), size_of_val(&attr)) }) {
            Ok(_) => Ok(Some(value)),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sets the value of a key.
    pub fn set(&self, key: &[u8], value: &[u8]) -> io::Result<()> {
        assert_eq!((key.len(), value.len()), (self.key, self.value), "a row of this map");
        let at = [key.as_ptr() as u64, value.as_ptr() as u64];
        let mut attr = [u64::from(self.number() as u32), at[0], at[1], 0];
        // Safety: the kernel reads as many bytes of both as the map was made with.
        check(unsafe { bpf(MAP_UPDATE, attr.as_mut_ptr().cast(), size_of_val(&attr)) }).map(|_| ())
    }

    /// Removes a key. ENOENT: it was not there.
    pub fn delete(&self, key: &[u8]) -> io::Result<()> {
        assert_eq!(key.len(), self.key, "a key of this map");
        let mut attr = [u64::from(self.number() as u32), key.as_ptr() as u64, 0, 0];
        // Safety: the kernel reads as many bytes as the map was made with.
        check(unsafe { bpf(MAP_DELETE, attr.as_mut_ptr().cast(), size_of_val(&attr)) }).map(|_| ())
    }

    /// Calls `take` with every key and value, as of about this moment (BPF_MAP_LOOKUP_BATCH, Linux 5.6).
    pub fn read_all(&self, mut take: impl FnMut(&[u8], &[u8])) -> io::Result<()> {
        let mut room = 4096.min(self.entries.max(1));
        let (mut keys, mut values) = (Vec::new(), Vec::new());
        let (mut at, mut next, mut begun) = (0u64, 0u64, false);
        loop {
            keys.resize(room as usize * self.key, 0u8);
            values.resize(room as usize * self.value, 0u8);
            let from = if begun { (&raw mut at) as u64 } else { 0 };
            let places = [keys.as_mut_ptr() as u64, values.as_mut_ptr() as u64];
            // in_batch, out_batch, keys, values, count | map_fd << 32, elem_flags, flags
            let count = u64::from(room) | u64::from(self.number() as u32) << 32;
            let mut attr = [from, (&raw mut next) as u64, places[0], places[1], count, 0, 0];
            // Safety: room for `count` keys and values is there; a place in the table takes 4 bytes of the 8 given.
            let result = check(unsafe {
                bpf(MAP_LOOKUP_BATCH, attr.as_mut_ptr().cast(), size_of_val(&attr))
            });
            let ended = match result {
                Ok(_) => false,
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) => true,
                // A single bucket is larger than our room.
                Err(error) if error.raw_os_error() == Some(libc::ENOSPC) && room < self.entries => {
                    room = room.saturating_mul(4).min(self.entries);
                    continue;
                }
                Err(error) => return Err(error),
            };
            let got = (attr[4] as u32).min(room) as usize;
            for (key, value) in keys.chunks(self.key).zip(values.chunks(self.value)).take(got) {
                take(key, value);
            }
            if ended {
                return Ok(());
            }
            (at, begun) = (next, true);
        }
    }
}

/// Why a program is not run.
#[derive(Debug, thiserror::Error)]
#[error("{error}{log}")]
pub struct AttachError {
    /// The kernel's error.
    pub error: io::Error,
    /// The verifier's last messages, if it refused the program.
    pub log: String,
}

/// An attached program; detached when dropped.
#[derive(Debug)]
pub struct Program {
    program: OwnedFd,
    _link: Option<OwnedFd>,
}

/// Where a program is run (`enum bpf_prog_type`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
enum AttachPoint {
    PerfEvent = 7,
    RawTracepoint = 17,
}

impl Program {
    /// Loads a program and attaches it to a tracepoint; its context is the array of the tracepoint's arguments.
    /// ENOENT: this kernel has no such tracepoint.
    pub fn attach(tracepoint: &CStr, words: &[u64]) -> Result<Program, AttachError> {
        let program = load(AttachPoint::RawTracepoint, words)?;
        let mut attr = [tracepoint.as_ptr() as u64, u64::from(program.as_raw_fd() as u32)];
        // Safety: a name that ends with NUL, and a descriptor.
        let link = owned(unsafe {
            bpf(RAW_TRACEPOINT_OPEN, attr.as_mut_ptr().cast(), size_of_val(&attr))
        });
        match link {
            Ok(link) => Ok(Program { program, _link: Some(link) }),
            Err(error) => Err(AttachError { error, log: String::new() }),
        }
    }

    /// Loads a program that runs instead of each record that these events would write, as long as they are open; its
    /// context is not used here. An event has at most one program (Linux 4.9).
    pub fn attach_to_events(events: &[Event], words: &[u64]) -> Result<Program, AttachError> {
        let program = load(AttachPoint::PerfEvent, words)?;
        let attached = events.iter().try_for_each(|event| event.run_instead_of_record(&program));
        match attached {
            Ok(()) => Ok(Program { program, _link: None }),
            Err(error) => Err(AttachError { error, log: String::new() }),
        }
    }

    /// How often it was skipped because it was running already on that CPU (`recursion_misses`, Linux 5.12); 0 where
    /// the kernel does not say.
    #[must_use]
    pub fn missed(&self) -> u64 {
        // struct bpf_prog_info: recursion_misses is the eight bytes at 208.
        let mut info = [0u64; 32];
        let size = size_of_val(&info) as u64;
        let words = u64::from(self.program.as_raw_fd() as u32) | size << 32;
        let mut attr = [words, info.as_mut_ptr() as u64];
        // Safety: the kernel writes at most as many bytes as we say that `info` has. Zeroes in it ask for no lists.
        let result =
            check(unsafe { bpf(OBJ_GET_INFO, attr.as_mut_ptr().cast(), size_of_val(&attr)) });
        if result.is_ok() { info[26] } else { 0 }
    }
}

fn load(point: AttachPoint, words: &[u64]) -> Result<OwnedFd, AttachError> {
    // Our words are under MIT or Apache; helpers that the kernel reserves for programs under the GPL need a
    // compatible licence.
    let licence = c"Dual MIT/GPL";
    let attempt = |log: &mut [u8]| {
        // Offsets in bytes: prog_type 0, insn_cnt 4, insns 8, license 16, log_level 24, log_size 28, log_buf 32.
        let mut attr = [0u64; 5];
        attr[0] = u64::from(point as u32) | (words.len() as u64) << 32;
        attr[1] = words.as_ptr() as u64;
        attr[2] = licence.as_ptr() as u64;
        if !log.is_empty() {
            attr[3] = 1 | (log.len() as u64) << 32;
            attr[4] = log.as_mut_ptr() as u64;
        }
        // Safety: all pointers are to live memory of the lengths given; the kernel reads words and licence and writes
        // at most the log.
        owned(unsafe { bpf(PROG_LOAD, attr.as_mut_ptr().cast(), size_of_val(&attr)) })
    };
    attempt(&mut []).map_err(|error| {
        // Only for a refused program: the verifier's messages.
        let mut log = vec![0u8; 64 << 10];
        let explained = attempt(&mut log).err().map(|_| last_lines(&log)).unwrap_or_default();
        AttachError { error, log: explained }
    })
}

fn last_lines(log: &[u8]) -> String {
    let text = String::from_utf8_lossy(log);
    let lines: Vec<&str> =
        text.trim_end_matches('\0').lines().filter(|line| !line.is_empty()).collect();
    let last = lines.iter().rev().take(4).rev().copied().collect::<Vec<_>>().join(" | ");
    if last.is_empty() { last } else { format!(" ({last})") }
}

/// # Safety
/// `attr` is a `union bpf_attr` of `size` bytes whose pointers are as `command` needs them.
unsafe fn bpf(command: libc::c_long, attr: *mut libc::c_void, size: usize) -> libc::c_long {
    // Safety: as the caller promises.
    unsafe { libc::syscall(libc::SYS_bpf, command, attr, size) }
}

fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn owned(fd: libc::c_long) -> io::Result<OwnedFd> {
    let fd = i32::try_from(check(fd)?).map_err(|_| io::ErrorKind::InvalidData)?;
    // Safety: a descriptor that the kernel just gave to us and nobody else knows; bpf(2) sets close-on-exec.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
