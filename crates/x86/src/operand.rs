//! The memory accesses of an instruction, in symbols: before any register's value is known.
//!
//! What for: the vocabulary shared by the decoder ([`crate::Instruction::accesses`]), the evaluator and the burst
//! tracer. What not: values; page walks, instruction fetches, the shadow stack.
//!
//! Assumption: all registers in an [`Address`] have their value *before* the instruction. Where the architecture uses
//! a later one (`push` stores below the old rsp, `pop [rsp+8]` is relative to the new one), the displacement is
//! corrected instead.

use crate::register::{Gpr, MaskRegister, VectorRegister};

/// Bytes in a cache line, which is the unit of prefetches and flushes. All x86-64 processors so far have 64
/// (CPUID leaf 1, bits 15..8 of EBX, times 8; Intel SDM vol. 2, CLFLUSH).
pub const LINE_BYTES: u32 = 64;

/// The segment whose base is added. The bases of cs, ds, es and ss are 0 in 64-bit mode (SDM vol. 1, 3.4.2.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Segment {
    /// Base 0.
    #[default]
    Flat,
    /// Thread-local storage on Linux.
    Fs,
    /// Rarely used by programs; the burst tracer uses it for itself.
    Gs,
}

/// The width of the effective address, before the segment's base is added.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum AddressWidth {
    /// The default.
    #[default]
    Bits64,
    /// With a 67h prefix: the sum is cut to 32 bits and zero-extended (SDM vol. 1, 3.3.7).
    Bits32,
}

/// A register times 1, 2, 4 or 8.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Index {
    /// The register.
    pub register: Gpr,
    /// 1, 2, 4 or 8.
    pub scale: u8,
}

/// A part of an address that is neither base nor index.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ExtraTerm {
    /// `xlat`: the lowest byte of the register, zero-extended (SDM vol. 2, XLAT).
    LowByte(Gpr),
    /// `bt`, `bts`, `btr`, `btc` with a bit number in a register: the *signed* number, divided by the operand's bits
    /// (rounding down), times the operand's bytes. So the access may be far away on both sides (SDM vol. 2, BT).
    BitString {
        /// The register with the bit number.
        register: Gpr,
        /// 2, 4 or 8; the bit number has as many bytes.
        operand_bytes: u8,
    },
}

/// An address in terms of registers: segment base + width(base + index x scale + extra + displacement).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Address {
    /// The segment whose base is added.
    pub segment: Segment,
    /// Base register.
    pub base: Option<Gpr>,
    /// Index register with scale.
    pub index: Option<Index>,
    /// The extra term of `xlat` and bit strings.
    pub extra: Option<ExtraTerm>,
    /// Added with wrap-around. For a RIP-relative operand, the absolute address.
    pub displacement: u64,
    /// Bits of the sum.
    pub width: AddressWidth,
}

/// One address per lane: `lane` + sign-extended index element x scale (SDM vol. 2, 2.3.12, VSIB).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LaneAddress {
    /// The part that all lanes share; it has no index and no extra term.
    pub common: Address,
    /// The register with one index per lane.
    pub index: VectorRegister,
    /// Bytes of one index: 4 or 8.
    pub index_bytes: u8,
    /// 1, 2, 4 or 8.
    pub scale: u8,
    /// Number of lanes, 1..=16.
    pub lanes: u8,
}

/// The addresses of an access.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Location {
    /// At one address.
    One(Address),
    /// Gather and scatter. Lanes are listed from the lowest. A processor may read them in any order; writes of
    /// overlapping lanes happen from the lowest (SDM vol. 2, VPGATHERDD, VPSCATTERDD).
    Lanes(LaneAddress),
}

/// The effect of an access.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// Load.
    Read,
    /// Store.
    Write,
    /// Load and store of the same bytes by one instruction. That includes `cmpxchg` and its kin when they compare
    /// unequal: they then store the old value (SDM vol. 2, CMPXCHG).
    ReadWrite,
    /// Load with a non-temporal hint (`movntdqa`).
    StreamingRead,
    /// Store that bypasses the caches: `movnt*`, `maskmovdqu`, `movdiri`, `movdir64b`.
    StreamingWrite,
    /// A hint to fetch a line for reading; it never faults and may be ignored.
    Prefetch,
    /// A hint to fetch a line for writing.
    PrefetchWrite,
    /// `clflush`, `clflushopt`: removes the line from all caches.
    Flush,
    /// `clwb`: writes the line back; it may stay.
    WriteBack,
    /// `cldemote`: a hint to move the line to an outer cache.
    Demote,
}

/// The register that selects lanes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LaneMask {
    /// Bit i of an AVX-512 mask register for lane i.
    Mask(MaskRegister),
    /// The top bit of each element of a vector register.
    VectorSigns(VectorRegister),
    /// The top bit of each byte of an MMX register, mm0..mm7 (`maskmovq`).
    MmxSigns(VectorRegister),
}

/// Elements of an access, each of which happens or not.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Masked {
    /// The mask.
    pub mask: LaneMask,
    /// Bytes of an element in memory; divides the bytes of the access.
    pub element_bytes: u8,
    /// Number of lanes of the mask, 1..=64. With n elements in memory, element i is accessed if any lane j with j mod
    /// n = i is on: a broadcast has one element, and any lane requires it.
    pub lanes: u8,
}

/// A repeated string instruction: `bytes` at a time; the pointer moves up or down by the direction flag.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Repeat {
    /// The register with the count, before the instruction.
    pub counter: Gpr,
    /// `repe`/`repne` with `cmps`, `scas`: may end earlier, depending on the data. The count is then an upper bound.
    pub may_stop: bool,
}

/// Whether and how often an access happens.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Occurrence {
    /// Once.
    Always,
    /// Element by element, as a mask selects.
    Masked(Masked),
    /// `vpcompress*` to and `vpexpand*` from memory: as many elements as lanes are on, contiguous from the address
    /// on.
    Packed(Masked),
    /// The number of times that a register says. The two streams of `movs` and `cmps` alternate.
    Repeated(Repeat),
}

/// One data access of one instruction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Access {
    /// Its addresses.
    pub place: Location,
    /// Number of bytes: per lane for [`Location::Lanes`], per repetition for [`Occurrence::Repeated`], at most for
    /// [`Occurrence::Packed`].
    pub bytes: u32,
    /// Its effect.
    pub kind: Kind,
    /// Whether and how often it happens.
    pub when: Occurrence,
    /// Atomic: LOCK prefix, or `xchg` with memory (SDM vol. 3, "Bus Locking").
    pub locked: bool,
    /// The access is to the whole cache line of the address.
    pub line: bool,
}

impl Access {
    /// The address; for gathers and scatters, the part that all lanes share.
    #[must_use]
    pub fn address(&self) -> &Address {
        match &self.place {
            Location::One(address) => address,
            Location::Lanes(lanes) => &lanes.common,
        }
    }
}
