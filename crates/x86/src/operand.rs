//! What an instruction touches in memory, in symbols: before any register's value is known.
//!
//! What for: the vocabulary between the decoder ([`crate::Instruction::accesses`]), the evaluator and the burst tracer.
//! What not: values; page walks, instruction fetches, the shadow stack.
//! Assumption: all registers in an [`Address`] have the value they hold *before* the instruction. Where the
//! architecture computes with a later one (`push` stores below the old rsp, `pop [rsp+8]` counts from the new one),
//! the displacement has been corrected instead.

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
    /// Rarely used by programs; the burst tracer wants it for itself.
    Gs,
}

/// How many bits the effective address has, before the segment's base is added.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum AddressWidth {
    /// The rule.
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
    /// (rounding down), times the operand's bytes. So the access may lie far away on both sides (SDM vol. 2, BT).
    BitString {
        /// Holds the bit number.
        register: Gpr,
        /// 2, 4 or 8; the bit number has as many bytes.
        operand_bytes: u8,
    },
}

/// An address with registers in it: segment base + width(base + index x scale + extra + displacement).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Address {
    /// Whose base is added.
    pub segment: Segment,
    /// Base register.
    pub base: Option<Gpr>,
    /// Index register with scale.
    pub index: Option<Index>,
    /// What `xlat` and bit strings add.
    pub extra: Option<ExtraTerm>,
    /// Added with wrap-around. Of a RIP-relative operand, the absolute address.
    pub displacement: u64,
    /// Bits of the sum.
    pub width: AddressWidth,
}

/// One address per lane: `lane` + sign-extended index element x scale (SDM vol. 2, 2.3.12, VSIB).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LaneAddress {
    /// What all lanes share; it has no index and no extra term.
    pub common: Address,
    /// The register that holds an index per lane.
    pub index: VectorRegister,
    /// Bytes of one index: 4 or 8.
    pub index_bytes: u8,
    /// 1, 2, 4 or 8.
    pub scale: u8,
    /// How many lanes, 1..=16.
    pub lanes: u8,
}

/// The addresses of an access.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Location {
    /// At one address.
    One(Address),
    /// Gather and scatter. Lanes are listed from the lowest; a processor may read them in any order, and writes of
    /// lanes that overlap happen from the lowest (SDM vol. 2, VPGATHERDD, VPSCATTERDD).
    Lanes(LaneAddress),
}

/// What an access does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// Load.
    Read,
    /// Store.
    Write,
    /// Load and store of the same bytes by one instruction. `cmpxchg` and its kin are here also when they compare
    /// unequal: the old value is stored back then (SDM vol. 2, CMPXCHG).
    ReadWrite,
    /// Load with a non-temporal hint (`movntdqa`).
    StreamingRead,
    /// Store past the caches: `movnt*`, `maskmovdqu`, `movdiri`, `movdir64b`.
    StreamingWrite,
    /// A hint to fetch a line for reading; it never faults and may be ignored.
    Prefetch,
    /// A hint to fetch a line for writing.
    PrefetchWrite,
    /// `clflush`, `clflushopt`: the line leaves all caches.
    Flush,
    /// `clwb`: the line is written back and may stay.
    WriteBack,
    /// `cldemote`: a hint to move the line further out.
    Demote,
}

/// Which register says what lanes are touched.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LaneMask {
    /// Bit i of an AVX-512 mask register for lane i.
    Mask(MaskRegister),
    /// The top bit of each element of a vector register.
    VectorSigns(VectorRegister),
    /// The top bit of each byte of an MMX register, mm0..mm7 (`maskmovq`).
    MmxSigns(VectorRegister),
}

/// Elements of one access that happen or not.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Masked {
    /// Who decides.
    pub mask: LaneMask,
    /// Bytes of an element in memory; divides the bytes of the access.
    pub element_bytes: u8,
    /// How many lanes of the mask count, 1..=64. With n elements in memory, element i is touched when any lane j
    /// with j mod n = i is on: a broadcast has one element, and any lane asks for it.
    pub lanes: u8,
}

/// A repeated string instruction: `bytes` at a time, the pointer moves up or down as the direction flag says.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Repeat {
    /// Holds how often, before the instruction.
    pub counter: Gpr,
    /// `repe`/`repne` with `cmps`, `scas`: may end before, as the data say. The counter is an upper bound then.
    pub may_stop: bool,
}

/// Whether and how often an access occurs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Occurrence {
    /// Once.
    Always,
    /// Element by element, as a mask says.
    Masked(Masked),
    /// `vpcompress*` to and `vpexpand*` from memory: as many elements as lanes are on, side by side from the address on.
    Packed(Masked),
    /// As often as a counter says. The two streams of `movs` and `cmps` take turns.
    Repeated(Repeat),
}

/// One data access of one instruction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Access {
    /// Its addresses.
    pub place: Location,
    /// How many bytes: per lane for [`Location::Lanes`], per repetition for [`Occurrence::Repeated`], at most for
    /// [`Occurrence::Packed`].
    pub bytes: u32,
    /// What it does.
    pub kind: Kind,
    /// Whether and how often it occurs.
    pub when: Occurrence,
    /// Atomic: LOCK prefix, or `xchg` with memory (SDM vol. 3, "Bus Locking").
    pub locked: bool,
    /// The access is the whole cache line in which the address lies.
    pub line: bool,
}

impl Access {
    /// The address; of gathers and scatters, what all lanes share.
    #[must_use]
    pub fn address(&self) -> &Address {
        match &self.place {
            Location::One(address) => address,
            Location::Lanes(lanes) => &lanes.common,
        }
    }
}
