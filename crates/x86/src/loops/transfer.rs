//! The effect of an instruction on registers and stack words, as linear sums of their values at the start of an
//! iteration, and of what other instructions compute from such sums (a division, a shift): equal inputs, equal results.
//!
//! What not: flags, vectors, memory other than the stack.
//!
//! Assumptions: calls preserve what the ABI says (System V AMD64 ABI, 3.2.1: rbx, rbp, rsp, r12..r15). Calls, and
//! stores through other registers, write only stack words whose address is taken. Of a structure only the start is
//! known to be one; registers that then disagree about progress are no odometer (`analysis`).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use facts::{Slot, SlotBase};
use iced_x86::{
    Code, Instruction, InstructionInfo, InstructionInfoFactory, Mnemonic, OpAccess, OpKind,
    Register, UsedRegister,
};

use super::linear::{Linear, Variable};
use crate::instruction::{Flow, flow, register_effect};
use crate::register::{Gpr, GprSet};
use crate::wanted::{slot_operand, stack_base};

/// Most stack words that are tracked at once.
const MOST_SLOTS: usize = 64;

/// Most different results of a function.
const MOST_COMPUTED: u32 = 10_000;

/// Stack words that code may write without naming them: their address is taken, or they are the start of an array.
#[derive(Default)]
pub(super) struct Exposed(BTreeSet<Slot>);

impl Exposed {
    /// Those of a function.
    pub(super) fn new(instructions: &[Instruction]) -> Exposed {
        let named: BTreeSet<Slot> = instructions.iter().filter_map(slot_operand).collect();
        let begins = instructions.iter().filter_map(|raw| {
            let of_array = raw.memory_index() != Register::None;
            let base = stack_base(raw).filter(|_| of_array || raw.mnemonic() == Mnemonic::Lea)?;
            Some((base, i32::try_from(raw.memory_displacement64().cast_signed()).ok()?))
        });
        let begins: BTreeSet<(SlotBase, i32)> = begins.collect();
        let is_begin = |slot: &Slot| begins.contains(&(slot.base, slot.displacement));
        Exposed(named.into_iter().filter(is_begin).collect())
    }
}

/// The values of registers and stack words; `None`: unknown.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct State {
    registers: [Option<Linear>; Gpr::COUNT],
    /// Words that are not in it still have their start value, unless there were too many. Most blocks write none, so that the
    /// states around them share one.
    slots: Arc<BTreeMap<Slot, Option<Linear>>>,
    /// Words were written that are not in `slots`, because these have no room.
    too_many: bool,
}

impl State {
    /// At the start of an iteration.
    pub(super) fn begin() -> State {
        let registers = std::array::from_fn(|number| {
            Gpr::from_number(number).map(|gpr| Linear::variable(Variable::Register(gpr)))
        });
        State { registers, slots: Arc::default(), too_many: false }
    }

    pub(super) fn register(&self, register: Gpr) -> Option<&Linear> {
        self.registers[register.number()].as_ref()
    }

    pub(super) fn slot(&self, slot: Slot) -> Option<Linear> {
        match self.slots.get(&slot) {
            Some(value) => value.clone(),
            None => (!self.too_many).then(|| Linear::variable(Variable::Slot(slot))),
        }
    }

    /// Stack words that are known to have been written.
    pub(super) fn slots(&self) -> impl Iterator<Item = Slot> + '_ {
        self.slots.keys().copied()
    }

    /// All stack words that were written, if that is known.
    pub(super) fn written(&self) -> Option<BTreeSet<Slot>> {
        (!self.too_many).then(|| self.slots().collect())
    }

    /// Merges the values from another way; returns whether anything changed.
    pub(super) fn join(&mut self, other: &State) -> bool {
        let mut changed = other.too_many && !self.too_many;
        self.too_many |= other.too_many;
        for (mine, others) in self.registers.iter_mut().zip(&other.registers) {
            if mine.is_some() && mine != others {
                *mine = None;
                changed = true;
            }
        }
        if Arc::ptr_eq(&self.slots, &other.slots) {
            return changed;
        }
        let lost = self.differing(other);
        if !lost.is_empty() {
            Arc::make_mut(&mut self.slots).extend(lost.into_iter().map(|slot| (slot, None)));
            changed = true;
        }
        changed
    }

    /// Stack words with a known value that is not the other state's. A word that only one of them has written holds its start
    /// value in the other.
    fn differing(&self, other: &State) -> Vec<Slot> {
        let is_start = |value: &Linear, slot: &Slot| value.is(Variable::Slot(*slot));
        let only_there = |(slot, value): (&Slot, &Option<Linear>)| {
            let is_start = value.as_ref().is_some_and(|value| is_start(value, slot));
            (!self.too_many && !is_start).then_some(*slot)
        };
        let mut others = other.slots.iter().peekable();
        let mut lost = Vec::new();
        for (slot, mine) in self.slots.iter() {
            while let Some(only) = others.next_if(|(theirs, _)| *theirs < slot) {
                lost.extend(only_there(only));
            }
            let theirs = others.next_if(|(theirs, _)| *theirs == slot).map(|(_, value)| value);
            let differs = mine.as_ref().is_some_and(|mine| match theirs {
                Some(theirs) => theirs.as_ref() != Some(mine),
                None => other.too_many || !is_start(mine, slot),
            });
            lost.extend(differs.then_some(*slot));
        }
        lost.extend(others.filter_map(only_there));
        lost
    }

    /// Interprets one instruction.
    pub(super) fn step(
        &mut self,
        raw: &Instruction,
        (exposed, computed): (&Exposed, &Computed),
        factory: &mut InstructionInfoFactory,
    ) {
        if matches!(flow(raw), Flow::Call(_) | Flow::IndirectCall) {
            self.lose(exposed);
            // rbx, rsp, rbp, r12 to r15 (System V AMD64 ABI, 3.2.1).
            let kept = [3, 4, 5, 12, 13, 14, 15];
            let lost = Gpr::all().filter(|register| !kept.contains(&register.number()));
            return lost.for_each(|register| self.leave_result(raw, register));
        }
        let result = self.result(raw);
        let info = factory.info(raw);
        let changed: GprSet = register_effect(info).changed;
        let writes_memory = info.used_memory().iter().any(|memory| {
            !matches!(memory.access(), OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess)
        });
        let stack = self.after_push_or_pop(raw);
        let inputs = if result.is_none() && !writes_memory { self.inputs(raw, info) } else { None };
        changed.iter().for_each(|register| self.leave_result(raw, register));
        if let Some(stack) = stack {
            self.registers[Gpr::RSP.number()] = Some(stack);
        }
        match result {
            Some((Destination::Register(register), value)) => {
                self.registers[register.number()] = Some(value);
            }
            Some((Destination::Slot(slot), value)) => self.write(slot, Some(value)),
            None if writes_memory => self.overwrite(raw, exposed),
            None => {
                let Some(inputs) = inputs else { return };
                for register in changed.iter() {
                    if let Some(value) = computed.of(raw, register, &inputs) {
                        self.registers[register.number()] = Some(value);
                    }
                }
            }
        }
    }

    /// A register holds what an instruction left there. That has a name, so that copies of it are known to be equal: a value of
    /// an earlier iteration of an inner loop cannot have it, because the ways into that loop differ in it ([`State::join`]).
    fn leave_result(&mut self, raw: &Instruction, register: Gpr) {
        let result = Variable::Result(raw.ip(), register);
        self.registers[register.number()] = Some(Linear::variable(result));
    }

    /// All that an instruction reads, if it computes whole registers from registers and stack words alone.
    fn inputs(&self, raw: &Instruction, info: &InstructionInfo) -> Option<Vec<Linear>> {
        use Mnemonic as M;
        let is_whole = match raw.mnemonic() {
            M::Cdq | M::Cqo => true,
            M::Div | M::Idiv | M::Mul => operand_bytes(raw) >= 4,
            M::Imul if raw.op_count() == 1 => operand_bytes(raw) >= 4,
            M::Imul
            | M::And
            | M::Or
            | M::Xor
            | M::Not
            | M::Neg
            | M::Add
            | M::Sub
            | M::Shl
            | M::Sal
            | M::Shr
            | M::Sar
            | M::Movzx
            | M::Movsx => whole(raw.op0_register()).is_some(),
            _ => false,
        };
        let is_memory = |at| raw.op_kind(at) == OpKind::Memory;
        let mut inputs = Vec::new();
        if (0..raw.op_count()).any(is_memory) {
            inputs.push(self.slot(self.operand(raw).filter(|_| is_whole)?)?);
        } else if is_whole {
            let reads = |one: &&UsedRegister| !matches!(one.access(), OpAccess::Write);
            for one in info.used_registers().iter().filter(reads) {
                inputs.push(self.register(Gpr::from_iced(one.register())?)?.clone());
            }
        }
        is_whole.then_some(inputs)
    }

    /// Something may have written every word whose address is taken.
    fn lose(&mut self, exposed: &Exposed) {
        for slot in &exposed.0 {
            if let Some(slot) = self.by_own(*slot) {
                self.write(slot, None);
            }
        }
    }

    /// The value of rsp after an instruction that changes it in addition to its operands.
    fn after_push_or_pop(&self, raw: &Instruction) -> Option<Linear> {
        let moved = raw.stack_pointer_increment();
        if moved == 0 {
            return None;
        }
        self.register(Gpr::RSP)?.plus(&Linear::constant(i64::from(moved).cast_unsigned()))
    }

    /// A stack word relative to the start value of a base, if the operand's base is one that has only been moved by constants.
    pub(super) fn by_own(&self, operand: Slot) -> Option<Slot> {
        let base = match operand.base {
            SlotBase::StackPointer => Gpr::RSP,
            SlotBase::FramePointer => Gpr::RBP,
        };
        let value = self.register(base)?;
        let [(Variable::Register(own), 1)] = value.terms[..] else { return None };
        let base = match own {
            Gpr::RSP => SlotBase::StackPointer,
            Gpr::RBP => SlotBase::FramePointer,
            _ => return None,
        };
        let moved = value.constant.cast_signed();
        let displacement = i64::from(operand.displacement).checked_add(moved)?;
        Some(Slot { base, displacement: i32::try_from(displacement).ok()?, ..operand })
    }

    /// The operand of an instruction as a stack word relative to the start value of its base.
    pub(super) fn operand(&self, raw: &Instruction) -> Option<Slot> {
        self.by_own(slot_operand(raw)?)
    }

    fn write(&mut self, slot: Slot, value: Option<Linear>) {
        let bytes = |slot: &Slot| {
            let start = i64::from(slot.displacement);
            start..start + if slot.wide { 8 } else { 4 }
        };
        let written = bytes(&slot);
        let meets = |other: &Slot| {
            let other_bytes = bytes(other);
            other.base == slot.base
                && *other != slot
                && other_bytes.start < written.end
                && written.start < other_bytes.end
        };
        let slots = Arc::make_mut(&mut self.slots);
        slots.iter_mut().filter(|(other, _)| meets(other)).for_each(|(_, held)| *held = None);
        // Its halves, and the whole words that contain it, that were not written yet.
        for displacement in [-4, 0, 4] {
            for wide in [false, true] {
                let displacement = slot.displacement.wrapping_add(displacement);
                let other = Slot { base: slot.base, displacement, wide };
                if meets(&other) {
                    slots.insert(other, None);
                }
            }
        }
        if slots.len() < MOST_SLOTS || slots.contains_key(&slot) {
            slots.insert(slot, value);
        } else {
            self.too_many = true;
        }
    }

    /// A value that is not tracked was written to memory.
    fn overwrite(&mut self, raw: &Instruction, exposed: &Exposed) {
        // The store of a push is no operand; rsp has its value after the push here.
        let top = Slot { base: SlotBase::StackPointer, displacement: 0, wide: true };
        let pushed = if raw.mnemonic() == Mnemonic::Push { self.by_own(top) } else { None };
        if let Some(slot) = pushed.or_else(|| self.operand(raw)) {
            return self.write(slot, None);
        }
        let base = stack_base(raw).filter(|_| raw.memory_index() == Register::None);
        let Some(base) = base else { return self.lose(exposed) };
        let displacement = i32::try_from(raw.memory_displacement64().cast_signed());
        let size = i32::try_from(raw.memory_size().size()).unwrap_or(i32::MAX);
        let own = |displacement| self.by_own(Slot { base, displacement, wide: true });
        let first = displacement.ok().and_then(own);
        // From one byte to a vector of stack.
        let first = first.filter(|_| (1..=64).contains(&size));
        // Without its start value, rbp may be a pointer to anything.
        let Some(first) = first else { return self.lose(exposed) };
        for part in (0..size).step_by(4) {
            let displacement = first.displacement.wrapping_add(part);
            self.write(Slot { displacement, wide: false, ..first }, None);
        }
    }

    /// The value that an instruction writes, if known.
    pub(super) fn value_written(&self, raw: &Instruction) -> Option<Linear> {
        self.result(raw).map(|(_, value)| value)
    }

    /// The destination and the value that the instruction writes, if known.
    fn result(&self, raw: &Instruction) -> Option<(Destination, Linear)> {
        use Mnemonic as M;
        if raw.op_count() == 0 {
            // cdqe: the sign of the lower half of rax.
            let rax = self.register(Gpr::RAX).filter(|_| raw.mnemonic() == M::Cdqe)?;
            return Some((Destination::Register(Gpr::RAX), rax.clone().narrowed()));
        }
        let to = self.destination(raw)?;
        let value = match raw.mnemonic() {
            M::Mov | M::Movsxd => self.source(raw, raw.op_count() - 1)?,
            M::Lea => self.address(raw)?,
            M::Inc => self.source(raw, 0)?.plus(&Linear::constant(1))?,
            M::Dec => self.source(raw, 0)?.plus(&Linear::constant(u64::MAX))?,
            M::Xor if same_registers(raw) => Linear::constant(0),
            M::Sub if same_registers(raw) => Linear::constant(0),
            M::Add => self.source(raw, 0)?.plus(&self.source(raw, 1)?)?,
            M::Sub => self.source(raw, 0)?.minus(&self.source(raw, 1)?)?,
            M::Neg => self.source(raw, 0)?.times(u64::MAX),
            M::Shl | M::Sal if raw.op1_kind() == OpKind::Immediate8 => {
                self.source(raw, 0)?.times(1 << (raw.immediate8() & 63))
            }
            M::Imul if raw.op_count() == 3 => self.source(raw, 1)?.times(raw.immediate(2)),
            _ => return None,
        };
        let value = match to {
            Destination::Register(_) if raw.op0_register().is_gpr32() => {
                value.narrowed().zero_extended()
            }
            Destination::Slot(slot) if !slot.wide => value.narrowed(),
            _ => value,
        };
        Some((to, value))
    }

    fn destination(&self, raw: &Instruction) -> Option<Destination> {
        match raw.op0_kind() {
            OpKind::Register => whole(raw.op0_register()).map(Destination::Register),
            OpKind::Memory => self.operand(raw).map(Destination::Slot),
            _ => None,
        }
    }

    /// The value of an operand, if known.
    pub(super) fn source(&self, raw: &Instruction, at: u32) -> Option<Linear> {
        match raw.op_kind(at) {
            OpKind::Register => {
                let register = raw.op_register(at);
                let value = self.register(whole(register)?)?.clone();
                Some(if register.is_gpr32() { value.narrowed() } else { value })
            }
            OpKind::Memory => self.slot(self.operand(raw)?),
            OpKind::Immediate8
            | OpKind::Immediate32
            | OpKind::Immediate64
            | OpKind::Immediate8to32
            | OpKind::Immediate8to64
            | OpKind::Immediate32to64 => Some(Linear::constant(raw.immediate(at))),
            _ => None,
        }
    }

    /// Where an indirect call leads to, or where in memory that is read.
    pub(super) fn pointer(&self, call: &Instruction) -> Option<Linear> {
        match call.op0_kind() {
            OpKind::Memory => self.address(call),
            _ => self.source(call, 0),
        }
    }

    fn address(&self, raw: &Instruction) -> Option<Linear> {
        let part = |register: Register| match register {
            Register::None => Some(Linear::constant(0)),
            Register::RIP | Register::EIP => None,
            register => {
                let value = self.register(whole(register)?)?.clone();
                Some(if register.is_gpr32() { value.narrowed() } else { value })
            }
        };
        let index = part(raw.memory_index())?.times(u64::from(raw.memory_index_scale()));
        let sum = part(raw.memory_base())?.plus(&index)?;
        sum.plus(&Linear::constant(raw.memory_displacement64()))
    }
}

/// What instructions of a function compute, by what they read.
#[derive(Default)]
pub(super) struct Computed(Mutex<Known>);

#[derive(Default)]
struct Known {
    numbers: HashMap<Computation, u32>,
    /// What each was computed from.
    inputs: Vec<Vec<Linear>>,
}

/// Instruction, its immediate operand, the register that it writes, and what it reads.
type Computation = (Code, u64, Gpr, Vec<Linear>);

impl Computed {
    fn of(&self, raw: &Instruction, into: Gpr, inputs: &[Linear]) -> Option<Linear> {
        let immediate = (0..raw.op_count()).find(|at| is_immediate(raw.op_kind(*at)));
        let immediate = immediate.map_or(0, |at| raw.immediate(at));
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let next = u32::try_from(known.inputs.len()).ok().filter(|next| *next < MOST_COMPUTED)?;
        let key = (raw.code(), immediate, into, inputs.to_vec());
        let number = *known.numbers.entry(key).or_insert(next);
        if number == next {
            known.inputs.push(inputs.to_vec());
        }
        Some(Linear::variable(Variable::Computed(number)))
    }

    /// The sums of registers and stack words from which all of a sum follows.
    pub(super) fn sources(&self, sum: &Linear) -> Vec<Linear> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut found, mut open) = (Vec::new(), vec![sum]);
        let mut seen = BTreeSet::new();
        while let Some(one) = open.pop() {
            let mut plain = one.clone();
            plain.terms.retain(|(variable, _)| !matches!(variable, Variable::Computed(_)));
            found.push(plain);
            for (variable, _) in &one.terms {
                if let Variable::Computed(number) = *variable
                    && seen.insert(number)
                {
                    open.extend(known.inputs.get(number as usize).into_iter().flatten());
                }
            }
        }
        found
    }
}

fn is_immediate(kind: OpKind) -> bool {
    use OpKind as K;
    matches!(
        kind,
        K::Immediate8
            | K::Immediate16
            | K::Immediate32
            | K::Immediate64
            | K::Immediate8to16
            | K::Immediate8to32
            | K::Immediate8to64
            | K::Immediate32to64
    )
}

fn operand_bytes(raw: &Instruction) -> usize {
    match raw.op0_kind() {
        OpKind::Register => raw.op0_register().size(),
        _ => raw.memory_size().size(),
    }
}

/// The destination of an instruction.
enum Destination {
    Register(Gpr),
    Slot(Slot),
}

/// A register of 64 or 32 bits: a write replaces all of it.
fn whole(register: Register) -> Option<Gpr> {
    (register.is_gpr64() || register.is_gpr32()).then(|| Gpr::from_iced(register)).flatten()
}

fn same_registers(raw: &Instruction) -> bool {
    raw.op1_kind() == OpKind::Register
        && raw.op0_kind() == OpKind::Register
        && raw.op0_register() == raw.op1_register()
}
