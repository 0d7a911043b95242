//! General registers of a thread at its clock samples, in few bytes, and the code around them.
//!
//! What for: two samples of one thread in one loop show how far its induction register advanced between them,
//! natively and exactly; and a register that holds an address names the data that a sample waited for. What not: the
//! meaning of a register (`analysis`, with the decoder of `x86`).
//!
//! ```text
//! piece   = sample*
//! sample  = head:varint [place] [time:varint [cpu:varint]] [missing:varint] changed:varint token*
//! head    = number of the place, in order of first use in this piece << 1 | 1 if the CPU time follows
//! place   = module:varint offset:varint address:varint kept:varint slots:varint slot*            at its first use
//! kept    = registers | frame << 16: 0 where the thread ran, 1 from where it had gone into the kernel, 2 from where it had
//!           called; one of 2 has the times of the one before it
//! slot    = zigzag(displacement) << 2 | 2 if its base is rbp (else rsp) | 1 if it has 8 bytes (else 4): varint
//! time    = zigzag(d - the d before), where d = time - the time before, from 0
//! cpu     = zigzag(c - d), where c = CPU time - the CPU time before, from 0
//! missing = bit n: slot n has no value; only of places with slots
//! changed = bit n: the place's nth value (registers by number, then slots) is another than the value last seen of that
//!           register or slot in the same 4 KiB of code, callers' frames apart, from 0
//! token   = of each changed value: zigzag(difference) << 1; or, where the difference is that of the sample's first
//!           token, perhaps negated, times or divided by a power of two: (power << 2 | divided << 1 | negated) << 1 | 1
//! varint  = LEB128, as in records
//! ```
//! All arithmetic is modulo 2^64; a token of 65 bits uses the free bits of its last byte. So registers that advance
//! together (pointers, counters) cost a byte each, and unchanged ones none.
//!
//! Assumption: the bytes to decode may come from anywhere. Their number bounds work and memory: a place takes at
//! least five.

use std::collections::HashMap;

use base::{CodeAddress, FileOffset, IndexMap, ModuleId, Nanos, Pid, RemoteAddr, Tid};

/// How many general registers there are, by their numbers in the encoding: rax rcx rdx rbx rsp rbp rsi rdi r8..r15.
pub const GENERAL_REGISTERS: usize = 16;

/// Most slots of a place.
pub const MAX_SLOTS: usize = 16;

/// Registers of one thread at some of its clock samples in its own 64-bit code, in order of time: those that analysis
/// can use. A sample in translated code has none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SampleRegisters {
    /// Time of the first sample.
    pub time: Nanos,
    /// The process.
    pub pid: Pid,
    /// The thread.
    pub tid: Tid,
    /// How many samples.
    pub samples: u32,
    /// Encoded by [`RegisterEncoder`].
    pub bytes: Vec<u8>,
}

/// A function in which clock samples fell, as it is in its module's file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SampledCode {
    /// The module.
    pub module: ModuleId,
    /// Of the first byte.
    pub offset: FileOffset,
    /// All its bytes.
    pub bytes: Vec<u8>,
}

/// The base register of a slot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum SlotBase {
    /// rsp.
    StackPointer,
    /// rbp.
    FramePointer,
}

/// A word of the stack, by the operand that names it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Slot {
    /// The register.
    pub base: SlotBase,
    /// What is added to it.
    pub displacement: i32,
    /// Eight bytes, else four.
    pub wide: bool,
}

/// The frame whose registers they are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum SampledFrame {
    /// The thread ran in it.
    Own,
    /// The thread had entered the kernel from it.
    Kernel,
    /// The thread had called from it and was in the callee: the callee-saved registers of the sample before.
    Caller,
}

/// An address at which samples were taken, and what is kept of them.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct SampledPlace {
    /// The module.
    pub module: ModuleId,
    /// Where in it.
    pub offset: FileOffset,
    /// The address in the process.
    pub address: RemoteAddr,
    /// The kept registers, bit by number.
    pub registers: u16,
    /// The kept words of the stack, at most [`MAX_SLOTS`].
    pub slots: Vec<Slot>,
    /// The frame. The place of a caller lies within its call: the return address minus one.
    pub frame: SampledFrame,
}

/// Without the slots, which follow from the rest: a place is looked up with every sample.
impl std::hash::Hash for SampledPlace {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (self.module, self.offset, self.address, self.registers, self.frame).hash(state);
    }
}

impl SampledPlace {
    /// Its address in the file.
    #[must_use]
    pub const fn code_address(&self) -> CodeAddress {
        CodeAddress::new(self.module, self.offset)
    }
}

/// One sample, or a caller's frame of the one before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SampledState<'a> {
    /// When; the [`Sample`](crate::Sample) of the thread has the same time.
    pub time: Nanos,
    /// CPU time of the thread, counted from any moment that is the same for all its samples. `None` if unknown.
    pub cpu_time: Option<Nanos>,
    /// Where.
    pub place: &'a SampledPlace,
    /// All registers; those that are not kept are 0.
    pub registers: &'a [u64; GENERAL_REGISTERS],
    /// The place's slots; `None` where the copied stack did not reach them. Four-byte ones are zero-extended.
    pub slots: &'a [Option<u64>],
}

impl SampledState<'_> {
    /// A kept register, by number.
    #[must_use]
    pub fn register(&self, number: usize) -> Option<u64> {
        let kept = number < GENERAL_REGISTERS && self.place.registers >> number & 1 == 1;
        kept.then(|| self.registers[number])
    }

    /// A kept word of the stack.
    #[must_use]
    pub fn slot(&self, wanted: Slot) -> Option<u64> {
        let at = self.place.slots.iter().position(|slot| *slot == wanted)?;
        *self.slots.get(at)?
    }
}

/// The owner of a value that was last seen.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Name {
    Register(usize),
    Slot(Slot),
}

/// The state of encoder and decoder: values last seen, and the positions of a place's values among them.
#[derive(Debug, Default)]
struct History {
    last: Vec<u64>,
    known: HashMap<(ModuleId, u64, bool, Name), usize>,
    time: u64,
    step: u64,
    cpu_time: u64,
}

impl std::fmt::Debug for Name {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Name::Register(number) => write!(out, "register {number}"),
            Name::Slot(slot) => write!(out, "{slot:?}"),
        }
    }
}

impl History {
    /// The positions of the values of `place`: registers by number, then slots.
    fn indices(&mut self, place: &SampledPlace) -> Vec<usize> {
        const CODE_PAGE: u64 = 4096;
        let registers = (0..GENERAL_REGISTERS)
            .filter(|number| place.registers >> number & 1 == 1)
            .map(Name::Register);
        let names = registers.chain(place.slots.iter().map(|slot| Name::Slot(*slot)));
        names
            .map(|name| {
                let page = place.offset.0 / CODE_PAGE;
                let key = (place.module, page, place.frame == SampledFrame::Caller, name);
                *self.known.entry(key).or_insert_with(|| {
                    self.last.push(0);
                    self.last.len() - 1
                })
            })
            .collect()
    }
}

/// Encodes samples of one thread into one piece.
#[derive(Debug, Default)]
pub struct RegisterEncoder {
    bytes: Vec<u8>,
    samples: u32,
    places: IndexMap<SampledPlace, (u64, Vec<usize>)>,
    history: History,
    /// Of the sample that is being added; kept for its memory.
    values: Vec<Option<u64>>,
}

impl RegisterEncoder {
    /// How many samples it has, callers' frames not counted.
    #[must_use]
    pub fn samples(&self) -> u32 {
        self.samples
    }

    /// Bytes so far.
    #[must_use]
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// The encoded samples.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }

    /// Adds a sample. Slots beyond [`MAX_SLOTS`] are left out.
    pub fn push(&mut self, state: &SampledState<'_>) {
        let own = state.place.frame != SampledFrame::Caller;
        let has_time = u64::from(own && state.cpu_time.is_some());
        let next = self.places.len() as u64;
        let known = self.places.get(state.place).map(|(number, _)| *number);
        put(&mut self.bytes, (known.unwrap_or(next) << 1 | has_time).into());
        if known.is_none() {
            // The first use of a number tells the decoder that a place follows.
            self.put_place(state.place);
            let indices = self.history.indices(state.place);
            self.places.insert(state.place.clone(), (next, indices));
        }
        if state.place.frame != SampledFrame::Caller {
            self.put_times(state);
            self.samples += 1;
        }
        let mut missing = 0u64;
        let kept = (0..GENERAL_REGISTERS).filter(|number| state.place.registers >> number & 1 == 1);
        self.values.clear();
        self.values.extend(kept.map(|number| Some(state.registers[number])));
        for at in 0..state.place.slots.len() {
            let value = state.slots.get(at).copied().flatten();
            missing |= u64::from(value.is_none()) << at;
            self.values.push(value);
        }
        if !state.place.slots.is_empty() {
            put(&mut self.bytes, missing.into());
        }
        self.put_values(state.place);
    }

    fn put_place(&mut self, place: &SampledPlace) {
        let words = [u64::from(place.module.0), place.offset.0, place.address.0];
        words.into_iter().for_each(|word| put(&mut self.bytes, word.into()));
        put(&mut self.bytes, (u64::from(place.registers) | (place.frame as u64) << 16).into());
        put(&mut self.bytes, (place.slots.len() as u64).into());
        for slot in &place.slots {
            let base = u64::from(slot.base == SlotBase::FramePointer) << 1;
            let displacement = zigzag(i64::from(slot.displacement).cast_unsigned());
            put(&mut self.bytes, (displacement << 2 | base | u64::from(slot.wide)).into());
        }
    }

    fn put_times(&mut self, state: &SampledState<'_>) {
        let history = &mut self.history;
        // The difference of differences: samples are about one period apart, so it is small.
        let step = state.time.0.wrapping_sub(history.time);
        put(&mut self.bytes, zigzag(step.wrapping_sub(history.step)).into());
        (history.time, history.step) = (state.time.0, step);
        if let Some(Nanos(cpu_time)) = state.cpu_time {
            let used = cpu_time.wrapping_sub(history.cpu_time);
            // A thread that ran all the time used as much CPU time as passed: mostly a byte.
            put(&mut self.bytes, zigzag(used.wrapping_sub(step)).into());
            history.cpu_time = cpu_time;
        }
    }

    fn put_values(&mut self, place: &SampledPlace) {
        let Some((_, indices)) = self.places.get(place) else { return };
        let last = &mut self.history.last;
        let pairs = || indices.iter().zip(&self.values).enumerate();
        let changed = pairs().filter(|(_, (at, value))| value.is_some_and(|new| new != last[**at]));
        let changed = changed.fold(0u64, |bits, (position, _)| bits | 1 << position);
        put(&mut self.bytes, changed.into());
        let mut first = None;
        for (position, (at, value)) in pairs() {
            let Some(value) = value.filter(|_| changed >> position & 1 == 1) else { continue };
            let difference = value.wrapping_sub(last[*at]);
            last[*at] = value;
            // Pointers and indices of one loop advance together, by elements or bytes: the first difference gives the
            // others.
            match first.and_then(|first| relation(first, difference)) {
                Some(code) => put(&mut self.bytes, u128::from(code << 1 | 1)),
                None => put(&mut self.bytes, u128::from(zigzag(difference)) << 1),
            }
            first.get_or_insert(difference);
        }
    }
}

/// Largest power of two between related differences: elements of 1 byte against lines of 128.
const POWERS: u64 = 8;

/// How `difference` follows from `first`, if it does.
fn relation(first: u64, difference: u64) -> Option<u64> {
    (0..POWERS * 4).find(|code| related(first, *code) == Some(difference))
}

fn related(first: u64, code: u64) -> Option<u64> {
    let power = u32::try_from(code >> 2).ok().filter(|power| u64::from(*power) < POWERS)?;
    let first = first.cast_signed();
    let scaled = match code & 2 {
        0 => first.wrapping_shl(power),
        _ if first & ((1 << power) - 1) == 0 => first >> power,
        _ => return None,
    };
    Some(if code & 1 == 1 { scaled.wrapping_neg() } else { scaled }.cast_unsigned())
}

fn zigzag(difference: u64) -> u64 {
    let difference = difference.cast_signed();
    (difference << 1 ^ difference >> 63).cast_unsigned()
}

fn unzigzag(value: u64) -> u64 {
    value >> 1 ^ (value & 1).wrapping_neg()
}

fn put(bytes: &mut Vec<u8>, mut value: u128) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// Why bytes are not registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RegisterError {
    /// They end inside a sample.
    #[error("the registers end inside a sample")]
    Truncated,
    /// A number of more bits than its field has.
    #[error("a number in a sample's registers is too large")]
    LongNumber,
    /// A place that no sample before has used.
    #[error("a sample uses place {place} of {known}")]
    UnknownPlace {
        /// Its number.
        place: u64,
        /// How many there are.
        known: usize,
    },
    /// A frame that is none.
    #[error("a place is of frame {0}, which there is not")]
    UnknownFrame(u64),
    /// More slots than [`MAX_SLOTS`].
    #[error("a place claims {0} words of the stack, more than {MAX_SLOTS}")]
    ManySlots(u64),
    /// A value that is said to follow from the first one, in a way that it cannot.
    #[error("a value follows from another in way {0}, which there is not")]
    Unrelated(u64),
}

/// Calls `take` with every sample of an encoded piece, in order. Before an error, it gets the samples in front of the
/// error.
///
/// # Errors
/// [`RegisterError`]: no [`RegisterEncoder`] made these bytes.
pub fn decode_registers(
    bytes: &[u8],
    mut take: impl FnMut(&SampledState<'_>),
) -> Result<(), RegisterError> {
    let mut input = Input { bytes };
    let mut places: Vec<(SampledPlace, Vec<usize>)> = Vec::new();
    let mut history = History::default();
    let mut cpu_time = None;
    while !input.bytes.is_empty() {
        let head = input.number()?;
        let number = head >> 1;
        if number == places.len() as u64 {
            let place = input.place()?;
            let indices = history.indices(&place);
            places.push((place, indices));
        }
        let known = places.len();
        let found = usize::try_from(number).ok().and_then(|number| places.get(number));
        let (place, indices) = found.ok_or(RegisterError::UnknownPlace { place: number, known })?;
        // A caller's frame is of the sample before it, and has its times.
        if place.frame != SampledFrame::Caller {
            history.step = history.step.wrapping_add(unzigzag(input.number()?));
            history.time = history.time.wrapping_add(history.step);
            cpu_time = None;
            if head & 1 == 1 {
                let used = unzigzag(input.number()?).wrapping_add(history.step);
                history.cpu_time = history.cpu_time.wrapping_add(used);
                cpu_time = Some(Nanos(history.cpu_time));
            }
        }
        let missing = if place.slots.is_empty() { 0 } else { input.number()? };
        input.values(indices, &mut history.last)?;
        let mut values = indices.iter().map(|at| history.last[*at]);
        let mut registers = [0; GENERAL_REGISTERS];
        for (number, register) in registers.iter_mut().enumerate() {
            if place.registers >> number & 1 == 1 {
                *register = values.next().unwrap_or(0);
            }
        }
        let mut slots = [None; MAX_SLOTS];
        for (at, (slot, value)) in slots.iter_mut().zip(values).enumerate() {
            *slot = (missing >> at & 1 == 0).then_some(value);
        }
        let slots = &slots[..place.slots.len()];
        let time = Nanos(history.time);
        take(&SampledState { time, cpu_time, place, registers: &registers, slots });
    }
    Ok(())
}

struct Input<'a> {
    bytes: &'a [u8],
}

impl Input<'_> {
    /// A number of at most 65 bits.
    fn token(&mut self) -> Result<u128, RegisterError> {
        let mut value = 0;
        for (at, &byte) in self.bytes.iter().enumerate() {
            // The tenth byte holds the 64th and the 65th bit.
            if at == 9 && byte > 3 {
                return Err(RegisterError::LongNumber);
            }
            value |= u128::from(byte & 0x7f) << (7 * at);
            if byte & 0x80 == 0 {
                self.bytes = &self.bytes[at + 1..];
                return Ok(value);
            }
        }
        Err(RegisterError::Truncated)
    }

    fn number(&mut self) -> Result<u64, RegisterError> {
        self.narrow()
    }

    fn narrow<T: TryFrom<u128>>(&mut self) -> Result<T, RegisterError> {
        T::try_from(self.token()?).map_err(|_| RegisterError::LongNumber)
    }

    fn place(&mut self) -> Result<SampledPlace, RegisterError> {
        let (module, offset) = (ModuleId(self.narrow()?), FileOffset(self.number()?));
        let (address, kept) = (RemoteAddr(self.number()?), self.number()?);
        let registers = (kept & 0xffff) as u16;
        let frame = match kept >> 16 {
            0 => SampledFrame::Own,
            1 => SampledFrame::Kernel,
            2 => SampledFrame::Caller,
            other => return Err(RegisterError::UnknownFrame(other)),
        };
        let claimed = self.number()?;
        let count = usize::try_from(claimed).ok().filter(|count| *count <= MAX_SLOTS);
        let count = count.ok_or(RegisterError::ManySlots(claimed))?;
        let slots = (0..count).map(|_| self.slot()).collect::<Result<_, _>>()?;
        Ok(SampledPlace { module, offset, address, registers, slots, frame })
    }

    fn slot(&mut self) -> Result<Slot, RegisterError> {
        let word = self.number()?;
        let displacement = unzigzag(word >> 2).cast_signed();
        let displacement = i32::try_from(displacement).map_err(|_| RegisterError::LongNumber)?;
        let base = if word & 2 == 0 { SlotBase::StackPointer } else { SlotBase::FramePointer };
        Ok(Slot { base, displacement, wide: word & 1 == 1 })
    }

    fn values(&mut self, indices: &[usize], last: &mut [u64]) -> Result<(), RegisterError> {
        let changed = self.number()?;
        let mut first = None;
        for (_, at) in
            indices.iter().enumerate().filter(|(position, _)| changed >> position & 1 == 1)
        {
            let token = self.token()?;
            let word = (token >> 1) as u64;
            let difference = match (token & 1, first) {
                (0, _) => unzigzag(word),
                (_, Some(first)) => related(first, word).ok_or(RegisterError::Unrelated(word))?,
                (_, None) => return Err(RegisterError::Unrelated(word)),
            };
            last[*at] = last[*at].wrapping_add(difference);
            first.get_or_insert(difference);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
