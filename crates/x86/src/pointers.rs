//! The effect of an instruction on pointers in general-purpose registers.
//!
//! What for: following a pointer from the load that fetched it to the accesses through it, over whole functions in a
//! file. What not: blocks, traces; a value that is no sum of two registers and a constant counts as "changed".
//!
//! Assumptions: those of the crate's head; but instructions that must not run in a copy are read too, because they
//! are only analysed. Sources: Intel SDM vol. 2, page of each instruction.

use base::RemoteAddr;
use iced_x86::{FlowControl, Mnemonic, OpKind, Register};

use crate::code::{CodeBytes, Window};
use crate::corrections;
use crate::derive;
use crate::effect::{self, Change};
use crate::instruction::{self, Flow, Reader};
use crate::operand::Access;
use crate::register::{Gpr, GprSet};

/// The new value of a register, from the values *before* the instruction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Derived {
    /// The sum of these registers, each times its factor, and the constant; modulo 2^64.
    Sum {
        /// At most two.
        terms: Vec<(Gpr, i64)>,
        /// Added to them.
        constant: i64,
    },
    /// All 8 bytes that this access of the instruction loads.
    Loaded {
        /// Its index in [`PointerStep::accesses`].
        access: usize,
    },
}

/// The effect of an instruction on pointers.
#[derive(Clone, Debug)]
pub struct PointerStep {
    /// Bytes, 1..=15.
    pub length: usize,
    /// Where control continues; `None` if it does not (`ud2`, `hlt`).
    pub flow: Option<Flow>,
    /// As [`crate::Instruction::accesses`]; empty if they are unknown.
    pub accesses: Vec<Access>,
    /// The registers of which any part may change.
    pub changed: GprSet,
    /// Registers among them whose new value is known. Each occurs once.
    pub derived: Vec<(Gpr, Derived)>,
    /// The register whose 8 bytes a plain `mov` stores, by its only access.
    pub stored: Option<Gpr>,
}

impl Reader {
    /// Decodes the first instruction of `bytes`, as if loaded at `start`; `None` if it is none, or if not all of it
    /// is available.
    pub fn pointer_step(&mut self, bytes: &[u8], start: RemoteAddr) -> Option<PointerStep> {
        let code = CodeBytes { start, bytes };
        let window = Window::read(&code, start);
        let raw = instruction::decode(window.bytes(), start).ok()?;
        let info = self.factory.info(&raw);
        let mut registers = instruction::register_effect(info);
        let accesses = derive::accesses(&raw, info).unwrap_or_default();
        corrections::correct_registers(&raw, &mut registers);
        let stops = matches!(raw.flow_control(), FlowControl::Exception | FlowControl::Interrupt)
            || raw.mnemonic() == Mnemonic::Hlt;
        // `int 0x80` is a system call, which returns.
        let stops = stops && raw.mnemonic() != Mnemonic::Int;
        Some(PointerStep {
            length: raw.len(),
            flow: (!stops).then(|| instruction::flow(&raw)),
            changed: registers.changed,
            derived: derived(&raw, &accesses),
            stored: stored(&raw),
            accesses,
        })
    }
}

/// The registers whose new value is known, each once.
pub(crate) fn derived(raw: &iced_x86::Instruction, accesses: &[Access]) -> Vec<(Gpr, Derived)> {
    let simple = effect::changes(raw);
    if !simple.is_empty() {
        let sum = |change| match change {
            Change::Constant(value) => {
                Derived::Sum { terms: Vec::new(), constant: value.cast_signed() }
            }
            Change::Plus(register, value) => {
                Derived::Sum { terms: vec![(register, 1)], constant: value.cast_signed() }
            }
        };
        let mut found: Vec<_> = simple.into_iter().map(|(to, change)| (to, sum(change))).collect();
        found.extend(popped(raw, accesses));
        return found;
    }
    let Some(to) = whole_register(raw, 0) else { return Vec::new() };
    let found = match raw.mnemonic() {
        Mnemonic::Mov => loaded(raw, accesses),
        Mnemonic::Lea => address(raw),
        Mnemonic::Add => whole_register(raw, 1).map(|from| sum(&[(to, 1), (from, 1)])),
        Mnemonic::Sub => whole_register(raw, 1).map(|from| sum(&[(to, 1), (from, -1)])),
        Mnemonic::Neg => Some(sum(&[(to, -1)])),
        Mnemonic::Shl if raw.op1_kind() == OpKind::Immediate8 => {
            let bits = raw.immediate8() & 63;
            (bits < 32).then(|| sum(&[(to, 1 << bits)]))
        }
        Mnemonic::Imul => product(raw),
        _ => None,
    };
    found.map(|value| vec![(to, value)]).unwrap_or_default()
}

/// The register that a plain `mov` stores whole.
pub(crate) fn stored(raw: &iced_x86::Instruction) -> Option<Gpr> {
    let plain = raw.mnemonic() == Mnemonic::Mov && raw.op0_kind() == OpKind::Memory;
    if plain { whole_register(raw, 1) } else { None }
}

fn sum(terms: &[(Gpr, i64)]) -> Derived {
    Derived::Sum { terms: terms.to_vec(), constant: 0 }
}

/// `pop reg` and `leave` load a register and move rsp.
fn popped(raw: &iced_x86::Instruction, accesses: &[Access]) -> Option<(Gpr, Derived)> {
    let to = match raw.mnemonic() {
        Mnemonic::Pop => whole_register(raw, 0)?,
        Mnemonic::Leave => Gpr::RBP,
        _ => return None,
    };
    (accesses.len() == 1 && accesses[0].bytes == 8).then_some((to, Derived::Loaded { access: 0 }))
}

/// This operand, if it is a register of 64 bits.
pub(crate) fn whole_register(raw: &iced_x86::Instruction, operand: u32) -> Option<Gpr> {
    let fits = raw.op_count() > operand && raw.op_kind(operand) == OpKind::Register;
    let register = if fits { raw.op_register(operand) } else { Register::None };
    if register.is_gpr64() { Gpr::from_iced(register) } else { None }
}

fn loaded(raw: &iced_x86::Instruction, accesses: &[Access]) -> Option<Derived> {
    let whole = accesses.len() == 1 && accesses[0].bytes == 8;
    (raw.op1_kind() == OpKind::Memory && whole).then_some(Derived::Loaded { access: 0 })
}

/// `lea` with an index. `effect` handles those without.
fn address(raw: &iced_x86::Instruction) -> Option<Derived> {
    let index = raw.memory_index();
    let base = raw.memory_base();
    if !index.is_gpr64() || !(base.is_gpr64() || base == Register::None) {
        return None;
    }
    let mut terms = vec![(Gpr::from_iced(index)?, i64::from(raw.memory_index_scale()))];
    terms.extend(Gpr::from_iced(base).map(|base| (base, 1)));
    Some(Derived::Sum { terms, constant: raw.memory_displacement64().cast_signed() })
}

/// `imul to, from, constant`.
fn product(raw: &iced_x86::Instruction) -> Option<Derived> {
    let factor = match (raw.op_count(), raw.op2_kind()) {
        (3, OpKind::Immediate8to64 | OpKind::Immediate32to64) => raw.immediate(2).cast_signed(),
        _ => return None,
    };
    Some(sum(&[(whole_register(raw, 1)?, factor)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(bytes: &[u8]) -> String {
        let step = Reader::new().pointer_step(bytes, RemoteAddr(0x1000)).unwrap();
        let derived = step.derived.iter().map(|(to, from)| format!("{to} = {from:?}"));
        derived.collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn sums_loads_and_products_are_known_and_others_are_not() {
        for (bytes, expected) in [
            (&[0x48, 0x8b, 0x43, 0x08][..], "rax = Loaded { access: 0 }"),
            (&[0x8b, 0x43, 0x08], ""),
            (&[0x48, 0x01, 0xd0], "rax = Sum { terms: [(rax, 1), (rdx, 1)], constant: 0 }"),
            (&[0x48, 0xc1, 0xe0, 0x04], "rax = Sum { terms: [(rax, 16)], constant: 0 }"),
            (&[0x48, 0x6b, 0xc1, 0x30], "rax = Sum { terms: [(rcx, 48)], constant: 0 }"),
            (
                &[0x48, 0x8d, 0x44, 0xd7, 0x10],
                "rax = Sum { terms: [(rdx, 8), (rdi, 1)], constant: 16 }",
            ),
            (&[0x5b], "rsp = Sum { terms: [(rsp, 1)], constant: 8 }; rbx = Loaded { access: 0 }"),
            (&[0x0f, 0xa2], ""),
        ] {
            assert_eq!(shown(bytes), expected, "{bytes:02x?}");
        }
    }
}
