//! Names of registers, and sets of general-purpose registers.
//!
//! What for: an index into a register file that was checked once, never a bare integer. What not: values. Numbers are
//! those of the encoding (Intel SDM vol. 2, 2.1.5 and 3.1.1.1): rax rcx rdx rbx rsp rbp rsi rdi r8..r15. APX
//! (r16..r31) is not supported; such code does not decode.

use std::fmt;

use iced_x86::Register;

/// A general-purpose register, always all of its 64 bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gpr(u8);

const GPR_NAMES: [&str; Gpr::COUNT] = [
    "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13",
    "r14", "r15",
];

impl Gpr {
    /// Number of registers.
    pub const COUNT: usize = 16;
    /// Accumulator; base of `clzero`.
    pub const RAX: Gpr = Gpr(0);
    /// Counter of repeated string instructions and of `loop`.
    pub const RCX: Gpr = Gpr(1);
    /// Data register.
    pub const RDX: Gpr = Gpr(2);
    /// Base of `xlat`.
    pub const RBX: Gpr = Gpr(3);
    /// Stack pointer.
    pub const RSP: Gpr = Gpr(4);
    /// Frame pointer.
    pub const RBP: Gpr = Gpr(5);
    /// Source of string instructions.
    pub const RSI: Gpr = Gpr(6);
    /// Destination of string instructions and of `maskmovdqu`.
    pub const RDI: Gpr = Gpr(7);

    /// Fourth argument of a system call.
    pub const R10: Gpr = Gpr(10);
    /// Clobbered by `syscall`.
    pub const R11: Gpr = Gpr(11);
    /// Callee-saved, like rbx and rbp; never named implicitly.
    pub const R15: Gpr = Gpr(15);

    /// The register with this number in the encoding, 0..16; `None` above.
    #[must_use]
    pub fn from_number(number: usize) -> Option<Gpr> {
        u8::try_from(number).ok().filter(|&number| usize::from(number) < Gpr::COUNT).map(Gpr)
    }

    /// Its number in the encoding, 0..16.
    #[must_use]
    pub fn number(self) -> usize {
        usize::from(self.0)
    }

    /// All registers, by number.
    pub fn all() -> impl Iterator<Item = Gpr> {
        (0..Gpr::COUNT as u8).map(Gpr)
    }

    /// The register of which `register` is the whole or a part.
    pub(crate) fn from_iced(register: Register) -> Option<Gpr> {
        if !register.is_gpr() {
            return None;
        }
        Gpr::from_number(register.full_register().number())
    }
}

impl fmt::Display for Gpr {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(GPR_NAMES[self.number()])
    }
}

impl fmt::Debug for Gpr {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{self}")
    }
}

/// A vector register, always all of its 64 bytes (zmm0..zmm31; xmm and ymm are its low parts), or an MMX register
/// where [`LaneMask`](crate::LaneMask) says so.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct VectorRegister(u8);

impl VectorRegister {
    /// Number of registers.
    pub const COUNT: usize = 32;

    /// The register with this number, 0..32; `None` above.
    #[must_use]
    pub fn from_number(number: usize) -> Option<VectorRegister> {
        let number = u8::try_from(number).ok()?;
        (usize::from(number) < VectorRegister::COUNT).then_some(VectorRegister(number))
    }

    /// Its number in the encoding, 0..32.
    #[must_use]
    pub fn number(self) -> usize {
        usize::from(self.0)
    }

    pub(crate) fn from_iced(register: Register) -> Option<VectorRegister> {
        if !register.is_vector_register() {
            return None;
        }
        VectorRegister::from_number(register.number())
    }
}

impl fmt::Display for VectorRegister {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "v{}", self.0)
    }
}

/// An AVX-512 mask register, k0..k7.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MaskRegister(u8);

impl MaskRegister {
    /// Number of registers.
    pub const COUNT: usize = 8;

    /// The register with this number, 0..8; `None` above.
    #[must_use]
    pub fn from_number(number: usize) -> Option<MaskRegister> {
        let number = u8::try_from(number).ok()?;
        (usize::from(number) < MaskRegister::COUNT).then_some(MaskRegister(number))
    }

    /// Its number in the encoding, 0..8.
    #[must_use]
    pub fn number(self) -> usize {
        usize::from(self.0)
    }

    pub(crate) fn from_iced(register: Register) -> Option<MaskRegister> {
        if !register.is_k() {
            return None;
        }
        MaskRegister::from_number(register.number())
    }
}

impl fmt::Display for MaskRegister {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "k{}", self.0)
    }
}

/// A set of general-purpose registers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct GprSet(u16);

impl GprSet {
    /// All sixteen.
    pub const ALL: GprSet = GprSet(u16::MAX);

    /// Adds a register.
    pub fn insert(&mut self, register: Gpr) {
        self.0 |= 1 << register.0;
    }

    /// Adds registers.
    pub fn extend(&mut self, registers: impl IntoIterator<Item = Gpr>) {
        registers.into_iter().for_each(|register| self.insert(register));
    }

    /// One bit per register, by number.
    #[must_use]
    pub fn bits(self) -> u16 {
        self.0
    }

    /// Whether it contains a register.
    #[must_use]
    pub fn contains(self, register: Gpr) -> bool {
        self.0 & (1 << register.0) != 0
    }

    /// The union of both.
    #[must_use]
    pub fn union(self, other: GprSet) -> GprSet {
        GprSet(self.0 | other.0)
    }

    /// Those of `self` that are not in `other`.
    #[must_use]
    pub fn without(self, other: GprSet) -> GprSet {
        GprSet(self.0 & !other.0)
    }

    /// Whether it is empty.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The members, by number.
    pub fn iter(self) -> impl Iterator<Item = Gpr> {
        Gpr::all().filter(move |&register| self.contains(register))
    }
}

impl FromIterator<Gpr> for GprSet {
    fn from_iter<T: IntoIterator<Item = Gpr>>(registers: T) -> GprSet {
        let mut set = GprSet::default();
        registers.into_iter().for_each(|register| set.insert(register));
        set
    }
}

impl fmt::Display for GprSet {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.iter().map(|register| register.to_string()).collect();
        out.write_str(if names.is_empty() { "-" } else { "" })?;
        out.write_str(&names.join(" "))
    }
}

impl fmt::Debug for GprSet {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{{{self}}}")
    }
}
