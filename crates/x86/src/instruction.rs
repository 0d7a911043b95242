//! One decoded instruction with all properties that the rest of this crate needs.
//!
//! What for: bytes -> instruction, or a named reason why it must run natively. What not: the content of its
//! addresses. All properties are computed once, here, so that later passes cannot fail.

use base::RemoteAddr;
use iced_x86::{
    Decoder, DecoderError, DecoderOptions, EncodingKind, FlowControl, InstructionInfoFactory,
    Mnemonic, OpAccess, Register,
};

use crate::code::{CodeSource, Window};
use crate::liveness::{FlagEffect, flag_effect};
use crate::operand::{Access, Segment};
use crate::refusal::Refusal;
use crate::register::{Gpr, GprSet, MaskRegister, VectorRegister};
use crate::{corrections, derive, refused_instructions};

/// Where control continues after an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Flow {
    /// To the next instruction.
    Next,
    /// `jmp` to a fixed address.
    Jump(RemoteAddr),
    /// `jcc`, `loop`, `jrcxz`: to this address or to the next instruction.
    Conditional(RemoteAddr),
    /// `call` of a fixed address.
    Call(RemoteAddr),
    /// `jmp` through a register or memory.
    IndirectJump,
    /// `call` through a register or memory.
    IndirectCall,
    /// `ret`.
    Return,
}

/// Which registers an instruction reads and changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RegisterEffect {
    /// General-purpose registers of which any part may be read, for addresses too.
    pub read: GprSet,
    /// Those of which any part may change.
    pub changed: GprSet,
    /// Those of which all 64 bits are certainly replaced. A write of 32 bits clears the upper half and counts. A
    /// write of 8 or 16 bits preserves the rest and does not count (SDM vol. 1, 3.4.1.1); nor does a conditional
    /// write.
    pub killed: GprSet,
    /// Vector registers of which any part may be read, also for addresses; bit n for register n.
    pub vectors_read: u32,
    /// Vector registers that may change; bit n for register n.
    pub vectors_changed: u32,
    /// Mask registers that may be read; bit n for register n.
    pub masks_read: u8,
    /// Mask registers that may change; bit n for register n.
    pub masks_changed: u8,
    /// An MMX register may change, also as an x87 register.
    pub mmx_changed: bool,
    /// The direction flag may change.
    pub direction_changed: bool,
}

/// An instruction that may run in translated code.
#[derive(Clone, Debug)]
pub struct Instruction {
    address: RemoteAddr,
    pub(crate) raw: iced_x86::Instruction,
    flow: Flow,
    accesses: Vec<Access>,
    flags: FlagEffect,
    registers: RegisterEffect,
}

impl Instruction {
    /// Its address.
    #[must_use]
    pub fn address(&self) -> RemoteAddr {
        self.address
    }

    /// Its length in bytes, 1..=15.
    #[must_use]
    pub fn length(&self) -> usize {
        self.raw.len()
    }

    /// The address after it; wraps at the end of the address space.
    #[must_use]
    pub fn next_address(&self) -> RemoteAddr {
        RemoteAddr(self.raw.next_ip())
    }

    /// Where control continues.
    #[must_use]
    pub fn flow(&self) -> Flow {
        self.flow
    }

    /// Its data accesses in the order of execution.
    #[must_use]
    pub fn accesses(&self) -> &[Access] {
        &self.accesses
    }

    /// Its effect on the status flags.
    #[must_use]
    pub fn flags(&self) -> FlagEffect {
        self.flags
    }

    /// Its effect on registers.
    #[must_use]
    pub fn registers(&self) -> &RegisterEffect {
        &self.registers
    }

    /// Whether it waits for the flushes and non-temporal stores before it, and does nothing else: `sfence`, `mfence` (SDM vol. 2,
    /// SFENCE).
    #[must_use]
    pub fn is_store_fence(&self) -> bool {
        matches!(self.raw.mnemonic(), Mnemonic::Sfence | Mnemonic::Mfence)
    }

    /// Whether it is a locked access, which waits for flushes and non-temporal stores as well (SDM vol. 2, CLWB; vol. 3, 9.2.2): `lock`, and
    /// `xchg` with memory, which needs no prefix (vol. 3, 9.1.2.1). Compilers make a fence of one: `lock or dword ptr [rsp], 0`.
    #[must_use]
    pub fn is_locked(&self) -> bool {
        let exchanges = self.raw.mnemonic() == Mnemonic::Xchg && !self.accesses.is_empty();
        self.raw.has_lock_prefix() || exchanges
    }

    /// The mnemonic in lower case, for listings.
    #[must_use]
    pub fn mnemonic(&self) -> String {
        format!("{:?}", self.raw.mnemonic()).to_lowercase()
    }
}

/// Why no instruction was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotRead {
    /// It was decoded, but must not run in a copy.
    Refused(Refusal),
    /// Not all of its bytes are available.
    MissingBytes,
}

/// The vector extensions of a processor; each includes those before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Vectors {
    /// SSE, as in x86-64-v2.
    Sse,
    /// With a VEX prefix (or AMD's XOP), 32 bytes.
    Avx,
    /// With an EVEX prefix, 64 bytes.
    Avx512,
}

#[cfg(target_arch = "x86_64")]
impl Vectors {
    /// What this processor has and its operating system saves; so a program on it may use them.
    #[must_use]
    pub fn of_this_processor() -> Vectors {
        match () {
            () if std::is_x86_feature_detected!("avx512f") => Vectors::Avx512,
            () if std::is_x86_feature_detected!("avx") => Vectors::Avx,
            () => Vectors::Sse,
        }
    }
}

/// Decodes instructions. Keep one: it reuses its buffers.
pub struct Reader {
    pub(crate) factory: InstructionInfoFactory,
    vectors: Vectors,
}

impl Default for Reader {
    fn default() -> Reader {
        Reader { factory: InstructionInfoFactory::new(), vectors: Vectors::Avx512 }
    }
}

impl Reader {
    /// A reader for all processors.
    #[must_use]
    pub fn new() -> Reader {
        Reader::default()
    }

    /// A reader that refuses what a processor with these vectors cannot execute. A block that continues after a
    /// branch may reach such code; its copy must not save registers for it that this processor does not have.
    #[must_use]
    pub fn of_processor(vectors: Vectors) -> Reader {
        Reader { vectors, ..Reader::default() }
    }

    /// Reads the instruction at `address`.
    ///
    /// # Errors
    /// [`NotRead`]: it is refused, or `code` does not have all of its bytes.
    pub fn instruction<C: CodeSource + ?Sized>(
        &mut self,
        code: &C,
        address: RemoteAddr,
    ) -> Result<Instruction, NotRead> {
        let window = Window::read(code, address);
        let raw = decode(window.bytes(), address)?;
        self.examine(raw, window.bytes(), address).map_err(NotRead::Refused)
    }

    fn examine(
        &mut self,
        raw: iced_x86::Instruction,
        bytes: &[u8],
        address: RemoteAddr,
    ) -> Result<Instruction, Refusal> {
        if let Some(refusal) = refused_instructions::refusal(&raw) {
            return Err(refusal);
        }
        if needs(&raw) > self.vectors {
            return Err(Refusal::NotOnThisProcessor);
        }
        let flow = flow(&raw);
        if flow != Flow::Next && depends_on_vendor(&raw, bytes, address) {
            return Err(Refusal::OperandSizeBranch);
        }
        let info = self.factory.info(&raw);
        let accesses = derive::accesses(&raw, info)?;
        if accesses.iter().any(|access| access.address().segment == Segment::Gs) {
            return Err(Refusal::GsUse);
        }
        let mut registers = register_effect(info);
        let flags = flag_effect(&raw);
        registers.direction_changed = refused_instructions::changes_direction(&raw);
        corrections::correct_registers(&raw, &mut registers);
        Ok(Instruction { address, raw, flow, accesses, flags, registers })
    }
}

/// By the encoding: some VEX instructions work on general registers; processors without VEX vectors lack these too.
fn needs(raw: &iced_x86::Instruction) -> Vectors {
    match raw.code().encoding() {
        EncodingKind::EVEX | EncodingKind::MVEX => Vectors::Avx512,
        EncodingKind::VEX | EncodingKind::XOP => Vectors::Avx,
        _ => Vectors::Sse,
    }
}

pub(crate) fn decode(bytes: &[u8], address: RemoteAddr) -> Result<iced_x86::Instruction, NotRead> {
    let mut decoder = Decoder::with_ip(64, bytes, address.0, DecoderOptions::NONE);
    let raw = decoder.decode();
    if !raw.is_invalid() {
        return Ok(raw);
    }
    // The decoder also reports this for 15 bytes that are all prefixes, but then the window is full.
    if decoder.last_error() == DecoderError::NoMoreBytes
        && bytes.len() < crate::code::LONGEST_INSTRUCTION
    {
        return Err(NotRead::MissingBytes);
    }
    Err(NotRead::Refused(Refusal::Invalid))
}

/// A near branch with a 66h prefix: Intel ignores the prefix in 64-bit mode, AMD cuts the target to 16 bits and reads
/// a shorter displacement (AMD APM vol. 3, JMP near). The decoder knows both; where they differ, we refuse. `66 48
/// e8` (a call padded with prefixes, as linkers write for thread-local storage) is the same on both.
fn depends_on_vendor(raw: &iced_x86::Instruction, bytes: &[u8], address: RemoteAddr) -> bool {
    if !bytes[..raw.len().min(bytes.len())].contains(&0x66) {
        return false;
    }
    let mut decoder = Decoder::with_ip(64, bytes, address.0, DecoderOptions::AMD);
    let other = decoder.decode();
    other.code() != raw.code() || other.len() != raw.len()
}

pub(crate) fn flow(raw: &iced_x86::Instruction) -> Flow {
    let target = RemoteAddr(raw.near_branch_target());
    match raw.flow_control() {
        FlowControl::UnconditionalBranch => Flow::Jump(target),
        FlowControl::ConditionalBranch => Flow::Conditional(target),
        FlowControl::Call => Flow::Call(target),
        FlowControl::IndirectBranch => Flow::IndirectJump,
        FlowControl::IndirectCall => Flow::IndirectCall,
        FlowControl::Return => Flow::Return,
        // Other kinds were refused before. A kind that the decoder may add later continues at the next instruction at
        // most.
        _ => Flow::Next,
    }
}

pub(crate) fn register_effect(info: &iced_x86::InstructionInfo) -> RegisterEffect {
    let mut effect = RegisterEffect::default();
    for used in info.used_registers() {
        let (register, access) = (used.register(), used.access());
        // What may be read or written counts; only `killed` needs certainty.
        let reads = matches!(
            access,
            OpAccess::Read | OpAccess::CondRead | OpAccess::ReadWrite | OpAccess::ReadCondWrite
        );
        let writes = matches!(
            access,
            OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
        );
        if let Some(gpr) = Gpr::from_iced(register) {
            if reads {
                effect.read.insert(gpr);
            }
            if writes {
                effect.changed.insert(gpr);
            }
            // The decoder reports a certain 32-bit write as one of the 64-bit register, which it is.
            if matches!(access, OpAccess::Write | OpAccess::ReadWrite) && register.is_gpr64() {
                effect.killed.insert(gpr);
            }
        } else {
            note_vector_or_mask(register, (reads, writes), &mut effect);
        }
    }
    effect
}

fn note_vector_or_mask(
    register: Register,
    (reads, writes): (bool, bool),
    effect: &mut RegisterEffect,
) {
    if let Some(vector) = VectorRegister::from_iced(register) {
        effect.vectors_read |= u32::from(reads) << vector.number();
        effect.vectors_changed |= u32::from(writes) << vector.number();
    } else if let Some(mask) = MaskRegister::from_iced(register) {
        effect.masks_read |= u8::from(reads) << mask.number();
        effect.masks_changed |= u8::from(writes) << mask.number();
    } else if register.is_mm() || register.is_st() {
        effect.mmx_changed |= writes;
    }
}
