//! The part of a thread's state at an address that the code around it gives a meaning.
//!
//! What for: a clock sample has all general registers and a piece of the stack, few of which are informative: those
//! from which addresses are computed, that count iterations, and that are compared with; and stack words used likewise (all
//! variables of unoptimised code). What not: their meaning, which is worked out later from the same code
//! ([`loops`](crate::loops())).
//!
//! Assumptions: a wrong choice costs room or leaves something unknown, but makes no value wrong. Code after an
//! address is followed from it, so that a loop is seen whole. Code before it is decoded from where decoding
//! resynchronises; x86 code nearly always does within a few instructions.

use std::collections::{BTreeMap, VecDeque};

use base::{IndexSet, RemoteAddr};
use facts::{Slot, SlotBase};
use iced_x86::{Instruction, Mnemonic, OpKind, Register};

use crate::code::{CodeSource, Window};
use crate::instruction::{Flow, decode, flow};
use crate::register::{Gpr, GprSet};

/// Most instructions that are followed from an address: few loops are longer, and it bounds the work to some 10 us.
const FOLLOWED: usize = 256;

/// The same after a call, where we must find whether the call runs again; some 100 us, once per call.
const FOLLOWED_OF_CALLER: usize = 1024;

/// Bytes before an address whose instructions are taken if they lead to it: several of these may have loaded what it
/// waits for.
const BYTES_BEFORE: u64 = 64;

/// Bytes around an address, in both directions, that are read.
pub const BYTES_AROUND: u64 = 4096;

/// Most stack words that are kept: the counters and bounds of some nested loops, and the pointers that they advance.
const SLOTS: usize = 10;

/// Registers and words of the stack.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Wanted {
    /// The registers.
    pub registers: GprSet,
    /// The words of the stack; those that count come first.
    pub slots: Vec<Slot>,
}

/// The state with a meaning at `address`.
#[must_use]
pub fn wanted<C: CodeSource + ?Sized>(code: &C, address: RemoteAddr) -> Wanted {
    let (before, behind) = (before(code, address), behind(code, address, FOLLOWED));
    let mut registers: GprSet = lasting().into_iter().collect();
    before.iter().chain(&behind).for_each(|one| note_registers(one, &mut registers));
    Wanted { registers, slots: slots(before.iter().chain(&behind)) }
}

/// The state with a meaning in the frame of a caller, whose callee will return to `address`. `None` if the call does
/// not run again: it is in no loop, and nothing counts there.
#[must_use]
pub fn wanted_of_caller<C: CodeSource + ?Sized>(code: &C, address: RemoteAddr) -> Option<Wanted> {
    let behind = behind(code, address, FOLLOWED_OF_CALLER);
    let is_call = |one: &Instruction| matches!(flow(one), Flow::Call(_) | Flow::IndirectCall);
    let again = behind.iter().any(|one| one.next_ip() == address.0 && is_call(one));
    let slots = again.then(|| slots(before(code, address).iter().chain(&behind)))?;
    Some(Wanted { registers: lasting().into_iter().collect(), slots })
}

/// The stack words that instructions name, as many as are kept.
fn slots<'a>(instructions: impl Iterator<Item = &'a Instruction>) -> Vec<Slot> {
    let mut slots: BTreeMap<Slot, Use> = BTreeMap::new();
    for instruction in instructions {
        if let Some((slot, used)) = slot_of(instruction) {
            let known = slots.entry(slot).or_insert(used);
            *known = (*known).min(used);
        }
    }
    let mut slots: Vec<(Use, Slot)> = slots.into_iter().map(|(slot, used)| (used, slot)).collect();
    slots.sort_unstable();
    slots.truncate(SLOTS);
    slots.into_iter().map(|(_, slot)| slot).collect()
}

/// rsp and the callee-saved registers (System V AMD64 ABI, 3.2.1): they distinguish one run of a loop from the next,
/// because callers keep their own counters in them.
fn lasting() -> [Gpr; 7] {
    [3, 4, 5, 12, 13, 14, 15].map(|number| Gpr::from_number(number).unwrap_or(Gpr::RSP))
}

/// The instructions that lead to `address`, as far back as decoding resynchronises with it.
fn before<C: CodeSource + ?Sized>(code: &C, address: RemoteAddr) -> Vec<Instruction> {
    for back in (1..=BYTES_BEFORE).rev() {
        let mut at = address.0.wrapping_sub(back);
        let mut found = Vec::new();
        while at < address.0 {
            let Some(instruction) = read(code, RemoteAddr(at)) else { break };
            at = instruction.next_ip();
            found.push(instruction);
        }
        if at == address.0 && !found.is_empty() {
            return found;
        }
    }
    Vec::new()
}

/// The instructions that may follow from `address` on, at most `most`, without callees.
fn behind<C: CodeSource + ?Sized>(code: &C, address: RemoteAddr, most: usize) -> Vec<Instruction> {
    let mut seen: IndexSet<u64> = IndexSet::default();
    // Breadth first: what is near is read before the limit ends the search.
    let mut open = VecDeque::from([address.0]);
    let mut found = Vec::new();
    while let Some(at) = open.pop_front()
        && found.len() < most
    {
        if !seen.insert(at) {
            continue;
        }
        let Some(instruction) = read(code, RemoteAddr(at)) else { continue };
        match flow(&instruction) {
            Flow::Jump(target) => open.push_back(target.0),
            Flow::Conditional(target) => open.extend([instruction.next_ip(), target.0]),
            Flow::IndirectJump | Flow::Return => {}
            Flow::Next | Flow::Call(_) | Flow::IndirectCall => {
                open.push_back(instruction.next_ip())
            }
        }
        found.push(instruction);
    }
    found
}

fn read<C: CodeSource + ?Sized>(code: &C, address: RemoteAddr) -> Option<Instruction> {
    decode(Window::read(code, address).bytes(), address).ok()
}

fn note_registers(instruction: &Instruction, registers: &mut GprSet) {
    use Mnemonic as M;
    let memory = (0..instruction.op_count()).any(|at| instruction.op_kind(at) == OpKind::Memory);
    if memory {
        let parts = [instruction.memory_base(), instruction.memory_index()];
        registers.extend(parts.into_iter().filter_map(Gpr::from_iced));
    }
    if instruction.is_string_instruction() {
        registers.extend([Gpr::RCX, Gpr::RSI, Gpr::RDI]);
    }
    let counts = matches!(
        instruction.mnemonic(),
        M::Add | M::Sub | M::Inc | M::Dec | M::Lea | M::Cmp | M::Test | M::Neg
    );
    if counts {
        let whole = |register: &Register| register.is_gpr64() || register.is_gpr32();
        let operands = (0..instruction.op_count()).map(|at| instruction.op_register(at));
        registers.extend(operands.filter(whole).filter_map(Gpr::from_iced));
    }
}

/// How a stack word is used, most informative first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Use {
    Counted,
    Read,
    Written,
}

fn slot_of(instruction: &Instruction) -> Option<(Slot, Use)> {
    use Mnemonic as M;
    let slot = slot_operand(instruction)?;
    let used = match instruction.mnemonic() {
        M::Add | M::Sub | M::Inc | M::Dec if instruction.op0_kind() == OpKind::Memory => {
            Use::Counted
        }
        M::Mov if instruction.op0_kind() == OpKind::Memory => Use::Written,
        M::Mov | M::Movsxd | M::Cmp | M::Add | M::Sub => Use::Read,
        _ => return None,
    };
    Some((slot, used))
}

/// The stack word that an operand names.
pub(crate) fn slot_operand(instruction: &Instruction) -> Option<Slot> {
    if !(0..instruction.op_count()).any(|at| instruction.op_kind(at) == OpKind::Memory) {
        return None;
    }
    let base = stack_base(instruction)?;
    let plain = instruction.memory_index() == Register::None
        && matches!(instruction.segment_prefix(), Register::None | Register::SS | Register::DS);
    let wide = match instruction.memory_size().size() {
        8 => true,
        4 => false,
        _ => return None,
    };
    let displacement = i32::try_from(instruction.memory_displacement64().cast_signed()).ok()?;
    plain.then_some(Slot { base, displacement, wide })
}

/// The base register of a memory operand on the stack, if there is one.
pub(crate) fn stack_base(instruction: &Instruction) -> Option<SlotBase> {
    match instruction.memory_base() {
        Register::RSP => Some(SlotBase::StackPointer),
        Register::RBP => Some(SlotBase::FramePointer),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CodeBytes;

    fn of(bytes: &[u8], at: u64) -> (String, Vec<(SlotBase, i32, bool)>) {
        let code = CodeBytes { start: RemoteAddr(0x1000), bytes };
        let found = wanted(&code, RemoteAddr(0x1000 + at));
        let slots = found.slots.iter().map(|slot| (slot.base, slot.displacement, slot.wide));
        (found.registers.to_string(), slots.collect())
    }

    const WITH_RCX_RDX_RDI: &str = "rcx rdx rbx rsp rbp rdi r12 r13 r14 r15";

    #[test]
    fn addresses_counters_and_bounds_are_wanted_and_data_are_not() {
        // mov rax,[rdi+rcx*8]; xor r8,rax; add rcx,1; cmp rcx,rdx; jne 0x1000; ret
        let bytes = [
            0x48, 0x8b, 0x04, 0xcf, 0x49, 0x31, 0xc0, 0x48, 0x83, 0xc1, 0x01, 0x48, 0x39, 0xd1,
            0x75, 0xf0, 0xc3,
        ];
        for at in [0, 4, 7, 11, 14] {
            assert_eq!(of(&bytes, at), (WITH_RCX_RDX_RDI.to_owned(), vec![]), "at {at}");
        }
        // Behind the loop: what led there.
        assert_eq!(of(&bytes, 16).0, WITH_RCX_RDX_RDI);
    }

    #[test]
    fn counters_on_the_stack_come_first() {
        // mov rax,[rbp-16]; mov [rbp-24],rax; add dword [rbp-4],1; mov eax,[rbp-4]; cmp eax,[rsp+32]; jl 0x1000
        let bytes = [
            0x48, 0x8b, 0x45, 0xf0, 0x48, 0x89, 0x45, 0xe8, 0x83, 0x45, 0xfc, 0x01, 0x8b, 0x45,
            0xfc, 0x3b, 0x44, 0x24, 0x20, 0x7c, 0xeb,
        ];
        let (registers, slots) = of(&bytes, 8);
        assert_eq!(registers, "rax rbx rsp rbp r12 r13 r14 r15");
        let (frame, stack) = (SlotBase::FramePointer, SlotBase::StackPointer);
        let expected =
            [(frame, -4, false), (stack, 32, false), (frame, -16, true), (frame, -24, true)];
        assert_eq!(slots, expected);
    }

    #[test]
    fn a_caller_counts_where_its_call_comes_again() {
        // 1000: call 1100; 1005: add dword [rbp-4],1; 1009: cmp dword [rbp-4],9; 100d: jle 1000; 100f: call 1100; 1014: ret
        let bytes = [
            0xe8, 0xfb, 0, 0, 0, 0x83, 0x45, 0xfc, 0x01, 0x83, 0x7d, 0xfc, 0x09, 0x7e, 0xf1, 0xe8,
            0xec, 0, 0, 0, 0xc3,
        ];
        let code = CodeBytes { start: RemoteAddr(0x1000), bytes: &bytes };
        let found = wanted_of_caller(&code, RemoteAddr(0x1005)).unwrap();
        let counter = Slot { base: SlotBase::FramePointer, displacement: -4, wide: false };
        assert_eq!(found.registers.to_string(), "rbx rsp rbp r12 r13 r14 r15");
        assert_eq!(found.slots, [counter]);
        assert_eq!(wanted_of_caller(&code, RemoteAddr(0x1014)), None);
        // Behind no call.
        assert_eq!(wanted_of_caller(&code, RemoteAddr(0x1009)), None);
    }

    #[test]
    fn any_bytes_do() {
        let mut bytes = [0u8; 300];
        let mut state = 1u64;
        for _ in 0..300 {
            for byte in &mut bytes {
                state =
                    state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
                *byte = (state >> 56) as u8;
            }
            assert!(of(&bytes, 100).1.len() <= SLOTS);
            let code = CodeBytes { start: RemoteAddr(0x1000), bytes: &bytes };
            let _ = wanted_of_caller(&code, RemoteAddr(0x1064));
            assert!(of(&[], 0).1.is_empty());
        }
    }
}
