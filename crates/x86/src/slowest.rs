//! An upper bound on the cycles of an instruction.
//!
//! What for: a bound on the time of code in which each instruction waits for the one before, for code that could not
//! be timed without misses. What not: its time: most instructions wait for few others, so that is a fraction.
//!
//! Figures are the largest latency, over all operands, of Intel's cores from Haswell and AMD's from Zen on (Fog,
//! Instruction tables, 2022; uops.info), rounded up; an instruction that no row names takes [`OTHERS`].
//!
//! Assumptions: data is in the first-level cache, and a load after a store to the same address gets its value by
//! store forwarding. Branches are predicted. Denormal numbers are rare.

use crate::instruction::Instruction;
use crate::operand::Kind;

/// Latency of a load from the first level: into a general-purpose register, and into others.
const LOAD: u32 = 5;
const LOAD_VECTOR: u32 = 8;
/// An atomic operation, after all earlier stores.
const LOCKED: u32 = 40;
const OTHERS: u32 = 30;
/// Vector instructions: additions, multiplications, shuffles, conversions within vectors.
const VECTOR: u32 = 7;

/// Division of 128 by 64 bits took up to 95 cycles before Ice Lake.
const WIDE_DIVISION: u32 = 100;
/// One cycle if by a constant, for flags and operand alike.
const SHIFTS: &[&str] = &["shl", "shr", "sar", "sal"];

/// Whole mnemonics of instructions on general-purpose registers.
const GENERAL: &[(u32, &[&str])] = &[
    (
        1,
        &[
            "mov", "movzx", "movsx", "movsxd", "add", "sub", "and", "or", "xor", "cmp", "test",
            "inc", "dec", "neg", "not", "nop", "endbr64", "push", "pop", "jmp", "andn", "cbw",
            "cwde", "cdqe", "cwd", "cdq", "cqo", "blsr", "blsi", "blsmsk",
        ],
    ),
    (
        3,
        &[
            "lea", "shl", "shr", "sar", "sal", "rol", "ror", "shlx", "shrx", "sarx", "rorx", "adc",
            "sbb", "bt", "bts", "btr", "btc", "xchg", "bswap", "bzhi", "bextr", "leave", "call",
            "ret",
        ],
    ),
    (
        5,
        &[
            "imul", "mul", "mulx", "popcnt", "lzcnt", "tzcnt", "bsf", "bsr", "shld", "shrd",
            "pdep", "pext",
        ],
    ),
];
/// Prefixes of mnemonics, without leading `v`; the first match counts.
const BEGINNINGS: &[(&str, u32)] = &[
    ("set", 2),
    ("cmov", 2),
    ("prefetch", 1),
    ("div", 45),
    ("sqrt", 45),
    ("pmulld", 12),
    ("pmullq", 18),
    ("dpp", 16),
    ("cvt", 12),
    ("round", 10),
    ("rndscale", 10),
    ("phadd", VECTOR),
    ("hadd", 8),
    ("pcmpestr", OTHERS),
    ("pcmpistr", OTHERS),
    ("gather", 60),
    ("pgather", 60),
    ("scatter", 60),
    ("pscatter", 60),
    ("compress", 16),
    ("expand", 16),
    ("pcompress", 16),
    ("pexpand", 16),
    ("conflict", 60),
    ("pconflict", 60),
];

impl Instruction {
    /// Most cycles from its operands to its result, with its data in the first-level cache; `None` for an instruction
    /// that repeats as often as a register says.
    #[must_use]
    pub fn slowest_cycles(&self) -> Option<u32> {
        if self.raw.has_rep_prefix() && self.raw.is_string_instruction() {
            return None;
        }
        let reads = |kind| matches!(kind, Kind::Read | Kind::ReadWrite | Kind::StreamingRead);
        let (own, load) = self.own_and_load();
        let loads = self.accesses().iter().any(|access| reads(access.kind));
        let locked = self.accesses().iter().any(|access| access.locked);
        Some(own + if loads { load } else { 0 } + if locked { LOCKED } else { 0 })
    }

    /// Its own cycles, and those of its load if it has one.
    fn own_and_load(&self) -> (u32, u32) {
        let mnemonic = self.mnemonic();
        let mnemonic = mnemonic.as_str();
        if self.is_wide_division() {
            return (WIDE_DIVISION, LOAD_VECTOR);
        }
        match GENERAL.iter().find(|(_, names)| names.contains(&mnemonic)) {
            // A shift by a register must keep the flags if the count is 0, which takes two more steps.
            Some(_) if SHIFTS.contains(&mnemonic) && !self.shifts_by_register() => (1, LOAD),
            Some((cycles, _)) => (*cycles, LOAD),
            None => (by_beginning_or_end(mnemonic), LOAD_VECTOR),
        }
    }

    fn shifts_by_register(&self) -> bool {
        self.raw.op1_register() != iced_x86::Register::None
    }

    /// Division of 128 by 64 bits.
    fn is_wide_division(&self) -> bool {
        use iced_x86::Mnemonic::{Div, Idiv};
        let wide = || self.raw.op0_register().is_gpr64() || self.raw.memory_size().size() == 8;
        matches!(self.raw.mnemonic(), Div | Idiv) && wide()
    }
}

/// The bound for a mnemonic that is not in [`GENERAL`].
fn by_beginning_or_end(mnemonic: &str) -> u32 {
    if mnemonic.starts_with('j') {
        return 2;
    }
    let plain = mnemonic.strip_prefix('v').unwrap_or(mnemonic);
    if let Some((_, cycles)) = BEGINNINGS.iter().find(|(start, _)| plain.starts_with(start)) {
        return *cycles;
    }
    let of_vectors = mnemonic.starts_with('v')
        || mnemonic.starts_with('p')
        || mnemonic.starts_with("mov")
        || ["ss", "sd", "ps", "pd"].iter().any(|end| mnemonic.ends_with(end));
    if of_vectors { VECTOR } else { OTHERS }
}

#[cfg(test)]
mod tests {
    use base::RemoteAddr;

    use crate::{CodeBytes, Limits, Reader, read_block};

    fn cycles(bytes: &[u8]) -> Vec<Option<u32>> {
        let start = RemoteAddr(0x1000);
        let code = CodeBytes { start, bytes };
        let block = read_block(&mut Reader::new(), &code, start, &Limits::SUPER);
        block.instructions.iter().map(|one| one.slowest_cycles()).collect()
    }

    #[test]
    fn each_kind_has_its_bound() {
        // mov rax, [rdi]; add rax, rbx; imul rax, rbx; div rcx; div ecx
        let integers =
            [0x48, 0x8b, 7, 0x48, 1, 0xd8, 0x48, 0xf, 0xaf, 0xc3, 0x48, 0xf7, 0xf1, 0xf7, 0xf1];
        assert_eq!(cycles(&integers), [6, 1, 5, 100, 45].map(Some));
        // shl rdx, 13; shl rdx, cl
        assert_eq!(cycles(&[0x48, 0xc1, 0xe2, 0x0d, 0x48, 0xd3, 0xe2]), [1, 3].map(Some));
        // addsd xmm0, [rdi]; vdivpd ymm0, ymm1, ymm2; lock inc dword [rdi]; cpuid is no part of a block
        let others = [0xf2, 0xf, 0x58, 7, 0xc5, 0xf5, 0x5e, 0xc2, 0xf0, 0xff, 7];
        assert_eq!(cycles(&others), [15, 45, 46].map(Some));
        // rep movsb
        assert_eq!(cycles(&[0xf3, 0xa4]), [None]);
    }
}
