//! Times straight-line machine code in a process in which every page is one of a few.
//!
//! What for: the *no-miss time* of code, that is, its time when all its data is in the first-level cache (Chen et
//! al., "BHive", IISWC 2019). Each page that the code touches is mapped, on its first fault, to one of a few pages: with
//! [`DATA_PAGES`] of them the data is 24 KiB, whatever the addresses are. Where the caller knows that the lines of more pages
//! fit, it may take more. What not: which code (`x86::unroll`), how often (`collect`).
//!
//! The code is not trusted: the process has no file except its own memory, no system call is made for it (each stops
//! at its entry), its CPU time is limited, and it dies with us.
//!
//! Assumptions:
//! * The first-level data cache holds 24 KiB in addition to the stub's 4 KiB, and is indexed by address bits within a
//!   page, as in every x86-64 processor with at least 32 KiB in 8 ways.
//! * Pages that share memory are aliases. Intel looks them up by physical address. AMD predicts the way from the
//!   virtual address, so that alternating aliases miss (Lipp et al., "Take A Way", 2020). So pages are shared only
//!   from the seventh on, and then one in which no page was first touched in the same line, while there is one
//!   ([`TimingProcess::aliases`]).
//! * Memory that the caller does not fill ([`TimingProcess::hold`]) holds one pointer into itself, so that a pointer chase
//!   continues. As floating-point numbers these words are denormal: zero under the flags below. Division by them is
//!   faster than usual, or faults.
//! * MXCSR: denormals are zero and flushed (DAZ, FTZ), as in BHive; a program without these may be slower.
//! * Registers that the caller does not set hold that pointer; vector registers hold 1.0, their upper halves 0.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use base::RemoteAddr;

mod child;
mod stub;

use crate::sandbox::StateComponent;
use child::{ADDRESS_END, ArenaPart, Child, PAGES_FD, PartUse, Stop};
use stub::PAGE;

/// Number of pages that all addresses share, or lines that any set of the cache may hold.
pub const DATA_PAGES: usize = 6;
/// Most bytes of code.
pub const MOST_CODE_BYTES: usize = stub::CODE_BYTES - JUMP_BYTES;
/// Bytes of the arena, which the code must not address.
pub const ARENA_BYTES: usize = stub::ARENA_BYTES;
/// Most words that the code may note ([`TimingProcess::note_at`]).
pub const MOST_NOTES: usize = stub::MOST_NOTES;
/// Most repetitions of one [`TimingProcess::time`].
pub const MOST_REPETITIONS: usize = stub::MOST_RESULTS;
/// The value of every word of memory, and so the address to which it leads: low enough for an index, in the middle of
/// a page.
pub const EVERY_WORD: u64 = 0x1234_5600;
/// A stack pointer where the real one is unknown: its words are not those at [`EVERY_WORD`], nor at the same offset
/// in a page.
pub const UNKNOWN_STACK: u64 = 0x2345_6e00;

const JUMP_BYTES: usize = 5;
/// Most pages that code may touch; the kernel allows 65,530 mappings (`vm.max_map_count`).
const MOST_PAGES: usize = 512;
/// The kernel maps nothing below it for ordinary users (`vm.mmap_min_addr`, default 64 KiB).
const FIRST_ADDRESS: u64 = 0x1_0000;
/// CPU time of one [`TimingProcess::time`], microseconds.
const TIME_LIMIT_US: u64 = 200_000;

/// Why code could not be timed.
#[derive(Debug, thiserror::Error)]
pub enum NoMissError {
    /// Such a process cannot be created here.
    #[error("cannot create a process to time code in: {0}")]
    System(#[from] io::Error),
    /// Too long, or its entry is outside.
    #[error("{bytes} bytes of code, entered at {entry}; at most {MOST_CODE_BYTES} have room")]
    Code {
        /// Its bytes.
        bytes: usize,
        /// Where it was to be entered.
        entry: usize,
    },
    /// It touched an address that cannot be mapped.
    #[error("it touches {0}, where nothing can be mapped")]
    Fault(RemoteAddr),
    /// It touched too many pages.
    #[error("it touches more than {MOST_PAGES} pages")]
    ManyPages,
    /// It raised a signal.
    #[error("it ends by signal {0}")]
    Signal(i32),
    /// It makes a system call.
    #[error("it makes a system call")]
    SystemCall,
    /// It takes too long.
    #[error("it takes more than {} ms", TIME_LIMIT_US / 1000)]
    Endless,
}

/// Registers before the code.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StartState {
    /// rax rcx rdx rbx rsp rbp rsi rdi r8..r15.
    pub general: [u64; 16],
    /// zmm0..31, lowest byte first.
    pub vectors: [[u8; 64]; 32],
    /// k0..k7.
    pub masks: [u64; 8],
}

impl Default for StartState {
    fn default() -> StartState {
        let mut vector = [0; 64];
        vector[..8].copy_from_slice(&1f64.to_le_bytes());
        vector[8..16].copy_from_slice(&1f64.to_le_bytes());
        StartState { general: [EVERY_WORD; 16], vectors: [vector; 32], masks: [0; 8] }
    }
}

/// A process that times code.
#[derive(Debug)]
pub struct TimingProcess {
    at: RemoteAddr,
    arena: File,
    /// The pages that all addresses share, and their number.
    data: File,
    shared: usize,
    child: Child,
    code_bytes: usize,
    pages: usize,
    /// The shared page of each page.
    lent: BTreeMap<u64, usize>,
    /// For each shared page, the lines in it that were touched first, or are held.
    lines: HashSet<(usize, u64)>,
    aliases: usize,
}

impl TimingProcess {
    /// Starts a process with an arena at `at`, a multiple of the page size: no address of the code may lie in it. All pages that the
    /// code touches are one of `shared`.
    ///
    /// # Errors
    /// [`NoMissError::System`]: the kernel's; [`NoMissError::Fault`]: nothing can be mapped there.
    pub fn start(at: RemoteAddr, shared: usize) -> Result<TimingProcess, NoMissError> {
        let in_range = (1 << 20..ADDRESS_END - ARENA_BYTES as u64).contains(&at.0);
        if !in_range || !at.0.is_multiple_of(PAGE as u64) {
            return Err(NoMissError::Fault(at));
        }
        let arena = child::memory(ARENA_BYTES)?;
        arena.write_all_at(stub::bytes(), 0)?;
        let shared = shared.max(1);
        let data = child::memory(shared * PAGE)?;
        data.write_all_at(&words(shared), 0)?;
        let part = |offset, bytes, use_for| ArenaPart { offset, bytes, use_for };
        let parts = [
            part(0, stub::DATA, PartUse::Code),
            part(stub::DATA, stub::CODE - stub::DATA, PartUse::Data),
            part(stub::CODE, stub::CODE_BYTES, PartUse::Code),
        ];
        let child = Child::start(&arena, &data, at, &parts)?;
        let (lent, lines, aliases) = (BTreeMap::new(), HashSet::new(), 0);
        Ok(TimingProcess {
            at,
            arena,
            data,
            shared,
            child,
            code_bytes: 0,
            pages: 0,
            lent,
            lines,
            aliases,
        })
    }

    /// Address of the first byte of code in an arena at `at`.
    #[must_use]
    pub fn code_at(at: RemoteAddr) -> RemoteAddr {
        RemoteAddr(at.0.wrapping_add(stub::CODE as u64))
    }

    /// Address of a word that the code may fill, by number below [`MOST_NOTES`], in an arena at `at`.
    #[must_use]
    pub fn note_at(at: RemoteAddr, number: usize) -> RemoteAddr {
        RemoteAddr(at.0.wrapping_add((stub::DATA + stub::NOTES + 8 * number) as u64))
    }

    /// The first words that the code filled.
    ///
    /// # Errors
    /// The kernel's.
    pub fn notes(&self, number: usize) -> Result<Vec<u64>, NoMissError> {
        let mut bytes = vec![0; 8 * number.min(MOST_NOTES)];
        self.arena.read_exact_at(&mut bytes, (stub::DATA + stub::NOTES) as u64)?;
        let (words, _) = bytes.as_chunks();
        Ok(words.iter().map(|word| u64::from_le_bytes(*word)).collect())
    }

    /// Sets what is timed: code for [`code_at`](TimingProcess::code_at) that runs to its end, and the registers before it.
    ///
    /// # Errors
    /// [`NoMissError::Code`]: it is too long.
    pub fn load(&mut self, code: &[u8], state: &StartState) -> Result<(), NoMissError> {
        if code.len() > MOST_CODE_BYTES {
            return Err(NoMissError::Code { bytes: code.len(), entry: 0 });
        }
        self.arena.write_all_at(code, stub::CODE as u64)?;
        let end = stub::CODE + code.len();
        let distance = stub::behind() as i64 - (end + JUMP_BYTES) as i64;
        self.arena.write_all_at(&[0xe9], end as u64)?;
        self.arena.write_all_at(&(distance as i32).to_le_bytes(), end as u64 + 1)?;
        self.code_bytes = code.len();
        for (number, value) in state.general.iter().enumerate() {
            self.set(8 * number, *value)?;
        }
        // Bit 1 is always set (SDM vol. 1, 3.4.3).
        self.set(stub::FLAGS, 2)?;
        let image = extended_state(state);
        self.arena.write_all_at(&image, (stub::DATA + stub::IMAGE) as u64)?;
        Ok(())
    }

    /// Maps the pages of these bytes and fills them, once, before the code first runs.
    ///
    /// A page shares its memory with one that has nothing else at the same offsets, while there is one.
    ///
    /// # Errors
    /// Nothing can be mapped at one of these addresses, or they lie in too many pages.
    pub fn hold(&mut self, contents: &BTreeMap<RemoteAddr, u8>) -> Result<(), NoMissError> {
        let mut by_page: BTreeMap<u64, Vec<(usize, u8)>> = BTreeMap::new();
        for (address, byte) in contents {
            let in_page = address.0 % PAGE as u64;
            by_page.entry(address.0 - in_page).or_default().push((in_page as usize, *byte));
        }
        let mut image = words(self.shared);
        let mut taken = vec![false; image.len()];
        for (page, bytes) in by_page {
            let fits = |shared: &usize| {
                let at = |(in_page, byte): &(usize, u8)| {
                    let offset = shared * PAGE + in_page;
                    !taken[offset] || image[offset] == *byte
                };
                bytes.iter().all(at)
            };
            let lines: Vec<u64> = bytes.iter().map(|(in_page, _)| line(*in_page as u64)).collect();
            let shared = self.untouched(&lines).or_else(|| self.in_turn().find(fits));
            let shared = shared.unwrap_or(self.pages % self.shared);
            self.lend_page(RemoteAddr(page), shared, &lines)?;
            for (in_page, byte) in bytes {
                let offset = shared * PAGE + in_page;
                (image[offset], taken[offset]) = (byte, true);
            }
        }
        Ok(self.data.write_all_at(&image, 0)?)
    }

    /// Replaces bytes from this address on, in pages that are held.
    ///
    /// # Errors
    /// [`NoMissError::Fault`]: one of these pages is not.
    pub fn refill(&mut self, at: RemoteAddr, bytes: &[u8]) -> Result<(), NoMissError> {
        let (mut at, mut rest) = (at.0, bytes);
        while !rest.is_empty() {
            let in_page = at % PAGE as u64;
            let shared =
                self.lent.get(&(at - in_page)).ok_or(NoMissError::Fault(RemoteAddr(at)))?;
            let (now, later) = rest.split_at(rest.len().min(PAGE - in_page as usize));
            self.data.write_all_at(now, (shared * PAGE) as u64 + in_page)?;
            (at, rest) = (at + now.len() as u64, later);
        }
        Ok(())
    }

    /// Runs the code from byte `entry` to its end, `passes` times, and returns the ticks of the time-stamp counter
    /// that this took; `repetitions` times, at most [`MOST_REPETITIONS`].
    ///
    /// # Errors
    /// The code cannot run here. The process cannot be used any more.
    pub fn time(
        &mut self,
        entry: usize,
        passes: u64,
        repetitions: usize,
    ) -> Result<Vec<u64>, NoMissError> {
        if entry > self.code_bytes || passes == 0 || repetitions == 0 {
            return Err(NoMissError::Code { bytes: self.code_bytes, entry });
        }
        let repetitions = repetitions.min(MOST_REPETITIONS);
        self.set(stub::ENTRY, TimingProcess::code_at(self.at).0 + entry as u64)?;
        self.set(stub::INNER, passes)?;
        self.set(stub::OUTER, repetitions as u64)?;
        self.set(stub::DONE, 0)?;
        self.limit_time()?;
        let mut registers = self.child.registers()?;
        registers.rip = self.at.0 + stub::outer() as u64;
        registers.fs_base = EVERY_WORD;
        self.child.set_registers(&registers)?;
        loop {
            match self.child.go()? {
                Stop::Signal(libc::SIGSEGV, code, address) => self.answer_fault(code, address)?,
                Stop::Signal(libc::SIGTRAP, ..) => break,
                Stop::Signal(libc::SIGVTALRM | libc::SIGXCPU, ..) => {
                    return Err(NoMissError::Endless);
                }
                Stop::Signal(signal, ..) => return Err(NoMissError::Signal(signal)),
                Stop::SystemCall => return Err(NoMissError::SystemCall),
                Stop::Ended => return Err(NoMissError::Signal(libc::SIGKILL)),
            }
        }
        if self.child.registers()?.rip != self.at.0 + stub::bytes().len() as u64 {
            return Err(NoMissError::Signal(libc::SIGTRAP));
        }
        (0..repetitions).map(|number| self.get(stub::RESULTS + 8 * number)).collect()
    }

    /// Number of pages that the code has touched so far.
    #[must_use]
    pub fn pages(&self) -> usize {
        self.pages
    }

    /// Number of these that share a line, where they were first touched or are held, with another page.
    #[must_use]
    pub fn aliases(&self) -> usize {
        self.aliases
    }

    /// The shared pages, in the order of their turns.
    fn in_turn(&self) -> impl Iterator<Item = usize> + use<> {
        let (next, all) = (self.pages % self.shared, self.shared);
        (0..all).map(move |more| (next + more) % all)
    }

    /// The next shared page in which these lines are unused.
    fn untouched(&self, lines: &[u64]) -> Option<usize> {
        self.in_turn()
            .find(|shared| lines.iter().all(|line| !self.lines.contains(&(*shared, *line))))
    }

    /// Maps the page of `address`, and continues before the instruction that faulted.
    fn answer_fault(&mut self, code: i32, address: RemoteAddr) -> Result<(), NoMissError> {
        /// `SEGV_MAPERR` (include/uapi/asm-generic/siginfo.h): nothing is mapped there.
        const NOT_MAPPED: i32 = 1;
        if code != NOT_MAPPED {
            return Err(NoMissError::Fault(address));
        }
        let registers = self.child.registers()?;
        let lines = [line(address.0 % PAGE as u64)];
        let shared = self.untouched(&lines).unwrap_or(self.pages % self.shared);
        self.lend_page(address, shared, &lines)?;
        self.child.set_registers(&registers)?;
        Ok(())
    }

    /// Maps the page of `address` to this shared page, in which it uses these lines. The registers are lost.
    fn lend_page(
        &mut self,
        address: RemoteAddr,
        shared: usize,
        lines: &[u64],
    ) -> Result<(), NoMissError> {
        // Root may map the first page, which no program has.
        if address.0 < FIRST_ADDRESS {
            return Err(NoMissError::Fault(address));
        }
        if self.pages == MOST_PAGES {
            return Err(NoMissError::ManyPages);
        }
        let page = RemoteAddr(address.0 & !(PAGE as u64 - 1));
        let mapped = self.child.map(page, PAGE, libc::PROT_WRITE, PAGES_FD, shared * PAGE);
        mapped.map_err(|_| NoMissError::Fault(address))?;
        self.pages += 1;
        self.lent.insert(page.0, shared);
        let shares = lines.iter().any(|line| self.lines.contains(&(shared, *line)));
        self.aliases += usize::from(shares);
        self.lines.extend(lines.iter().map(|line| (shared, *line)));
        Ok(())
    }

    /// A one-shot timer of the process's own CPU time.
    fn limit_time(&mut self) -> Result<(), NoMissError> {
        const ITIMER_VIRTUAL: u64 = 1; // include/uapi/linux/time.h
        for (number, value) in [0, 0, 0, TIME_LIMIT_US].into_iter().enumerate() {
            self.set(stub::TIMER + 8 * number, value)?;
        }
        let timer = self.at.0 + (stub::DATA + stub::TIMER) as u64;
        self.child.call(libc::SYS_setitimer, [ITIMER_VIRTUAL, timer, 0, 0, 0, 0])?;
        Ok(())
    }

    fn set(&self, offset: usize, value: u64) -> io::Result<()> {
        self.arena.write_all_at(&value.to_le_bytes(), (stub::DATA + offset) as u64)
    }

    fn get(&self, offset: usize) -> Result<u64, NoMissError> {
        let mut bytes = [0; 8];
        self.arena.read_exact_at(&mut bytes, (stub::DATA + offset) as u64)?;
        Ok(u64::from_le_bytes(bytes))
    }
}

/// The index of the cache line, 64 bytes, at this offset in a page.
fn line(in_page: u64) -> u64 {
    in_page / 64
}

/// The initial content of so many shared pages.
fn words(shared: usize) -> Vec<u8> {
    EVERY_WORD.to_le_bytes().repeat(shared * PAGE / 8)
}

/// `state` as an XSAVE image in standard format (SDM vol. 1, 13.4). What is not in it is in its initial state: with
/// upper halves that were never written, legacy SSE code pays no penalty for them (SDM optimization manual, "Mixing
/// AVX and SSE").
fn extended_state(state: &StartState) -> Vec<u8> {
    const MXCSR: usize = 24;
    const XMM: usize = 160;
    const HEADER: usize = 512;
    let mut image = vec![0; stub::IMAGE_BYTES];
    // Exceptions masked, DAZ, FTZ (SDM vol. 1, 10.2.3).
    image[MXCSR..MXCSR + 4].copy_from_slice(&0x9fc0u32.to_le_bytes());
    let mut present = 1 << 1;
    let mut put = |image: &mut Vec<u8>, component: u32, from: usize, value: &[u8]| {
        let Some(StateComponent { offset, bytes }) = crate::sandbox::component(component) else {
            return;
        };
        let field = image
            .get_mut(offset..offset + bytes)
            .and_then(|all| all.get_mut(from..from + value.len()));
        if let Some(field) = field.filter(|_| value.iter().any(|byte| *byte != 0)) {
            field.copy_from_slice(value);
            present |= 1 << component;
        }
    };
    for (number, vector) in state.vectors.iter().enumerate() {
        if number < 16 {
            image[XMM + 16 * number..XMM + 16 * number + 16].copy_from_slice(&vector[..16]);
            put(&mut image, 2, 16 * number, &vector[16..32]);
            put(&mut image, 6, 32 * number, &vector[32..]);
        } else {
            put(&mut image, 7, 64 * (number - 16), vector);
        }
    }
    for (number, mask) in state.masks.iter().enumerate() {
        put(&mut image, 5, 8 * number, &mask.to_le_bytes());
    }
    image[HEADER..HEADER + 8].copy_from_slice(&u64::to_le_bytes(present));
    image
}

#[cfg(test)]
mod tests;
