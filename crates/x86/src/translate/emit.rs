//! An assembler that always knows the native state.
//!
//! What for: every instruction is emitted together with the state before it, so the table of [`States`] is complete
//! by construction. What not: the choice of instructions. Our own go through iced-x86's encoder with explicit codes;
//! the program's are emitted as bytes.
//!
//! Assumption: an instruction that cannot be encoded is out of reach of a 32-bit displacement; nothing else fails
//! here. The first failure is kept and reported at the end, which keeps the callers readable.

use base::RemoteAddr;
use iced_x86::{Code, Encoder, IcedError, Instruction, MemoryOperand, Register};

use super::area::Displacement;
use super::{Parts, State, States};
use crate::refusal::Refusal;
use crate::register::Gpr;

/// `mov` from memory and to memory (SDM vol. 2, MOV).
const MOV_LOAD: u8 = 0x8b;
const MOV_STORE: u8 = 0x89;

/// A target of branches, perhaps before its address is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Label(usize);

/// A relative field whose label has no address yet.
struct Fixup {
    field: usize,
    bytes: usize,
    label: Label,
}

pub(super) struct Emitter {
    parts: Parts,
    encoder: Encoder,
    bytes: Vec<u8>,
    states: States,
    labels: Vec<Option<usize>>,
    fixups: Vec<Fixup>,
    failed: Option<Refusal>,
    /// The state before the next instruction.
    pub(super) state: State,
}

const GENERAL: [Register; Gpr::COUNT] = [
    Register::RAX,
    Register::RCX,
    Register::RDX,
    Register::RBX,
    Register::RSP,
    Register::RBP,
    Register::RSI,
    Register::RDI,
    Register::R8,
    Register::R9,
    Register::R10,
    Register::R11,
    Register::R12,
    Register::R13,
    Register::R14,
    Register::R15,
];

/// The 64-bit register.
pub(super) fn wide(register: Gpr) -> Register {
    GENERAL[register.number()]
}

/// `gs:[slot]`. Displacement size 8 means "64-bit address" to the encoder, not an 8-byte field.
pub(super) fn slot(slot: Displacement) -> MemoryOperand {
    let displacement = i64::from(slot);
    MemoryOperand::new(Register::None, Register::None, 1, displacement, 8, false, Register::GS)
}

/// `[register + displacement]`.
pub(super) fn at(register: Gpr, displacement: i32) -> MemoryOperand {
    MemoryOperand::with_base_displ(wide(register), i64::from(displacement))
}

impl Emitter {
    /// Code at `hot`, and what comes behind [`Emitter::begin_cold`] at `cold`.
    pub(super) fn new(hot: RemoteAddr, cold: RemoteAddr, state: State) -> Emitter {
        Emitter {
            parts: Parts { hot, cold, split: usize::MAX },
            encoder: Encoder::new(64),
            bytes: Vec::with_capacity(512),
            states: States::default(),
            labels: Vec::new(),
            fixups: Vec::new(),
            failed: None,
            state,
        }
    }

    /// Offset of the next byte.
    pub(super) fn offset(&self) -> usize {
        self.bytes.len()
    }

    /// Address of the next byte.
    pub(super) fn address(&self) -> RemoteAddr {
        self.parts.address(self.bytes.len())
    }

    /// What follows is the cold part.
    pub(super) fn begin_cold(&mut self) {
        self.parts.split = self.bytes.len();
    }

    pub(super) fn fail(&mut self, why: Refusal) {
        self.failed.get_or_insert(why);
    }

    fn mark(&mut self) {
        if self.states.from.last().is_none_or(|(_, last)| *last != self.state) {
            self.states.from.push((self.bytes.len(), self.state.clone()));
        }
    }

    /// Emits one instruction of ours.
    pub(super) fn put(&mut self, instruction: Result<Instruction, IcedError>) {
        self.mark();
        let at = self.address().0;
        match instruction.and_then(|instruction| self.encoder.encode(&instruction, at)) {
            Ok(_) => {
                let mut encoded = self.encoder.take_buffer();
                self.bytes.append(&mut encoded);
                self.encoder.set_buffer(encoded);
            }
            Err(_) => self.fail(Refusal::TooFar),
        }
    }

    /// Emits one instruction of the program, or padding.
    pub(super) fn put_bytes(&mut self, bytes: &[u8]) {
        self.mark();
        self.data(bytes);
    }

    fn data(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// `mov dword gs:[to], value`.
    pub(super) fn store_constant(&mut self, to: Displacement, value: u32) {
        let [d0, d1, d2, d3] = to.to_le_bytes();
        let [v0, v1, v2, v3] = value.to_le_bytes();
        self.put_bytes(&[0x65, 0xc7, 0x04, 0x25, d0, d1, d2, d3, v0, v1, v2, v3]);
    }

    /// `mov register, value`, all 64 bits.
    pub(super) fn set(&mut self, register: Gpr, value: u64) {
        let number = register.number() as u8;
        let mut code = [0x48 | number >> 3, 0xb8 | number & 7, 0, 0, 0, 0, 0, 0, 0, 0];
        code[2..].copy_from_slice(&value.to_le_bytes());
        self.put_bytes(&code);
    }

    /// `dec qword gs:[at]`.
    pub(super) fn count_down(&mut self, at: Displacement) {
        let [d0, d1, d2, d3] = at.to_le_bytes();
        self.put_bytes(&[0x65, 0x48, 0xff, 0x0c, 0x25, d0, d1, d2, d3]);
    }

    /// `mov` between a register and a slot.
    fn put_slot(&mut self, opcode: u8, register: Gpr, at: Displacement) {
        let number = register.number() as u8;
        let [d0, d1, d2, d3] = at.to_le_bytes();
        let rex = 0x48 | number >> 3 << 2;
        self.put_bytes(&[0x65, rex, opcode, (number & 7) << 3 | 4, 0x25, d0, d1, d2, d3]);
    }

    /// A branch to an address; of the most frequent ones the bytes are known.
    fn put_branch(&mut self, code: Code, target: RemoteAddr) {
        let near = |opcode: &[u8]| {
            let behind = self.address().0.wrapping_add(opcode.len() as u64 + 4);
            let relative = i32::try_from(target.0.wrapping_sub(behind).cast_signed()).ok()?;
            Some([opcode, &relative.to_le_bytes()].concat())
        };
        let bytes = match code {
            Code::Jmp_rel32_64 => near(&[0xe9]),
            // The conditions are in the order of their numbers, behind `None` (SDM vol. 2, appendix B.1.4.7).
            _ if code.is_jcc_near() => near(&[0x0f, 0x7f + code.condition_code() as u8]),
            _ => return self.put(Instruction::with_branch(code, target.0)),
        };
        match bytes {
            Some(bytes) => self.put_bytes(&bytes),
            None => self.fail(Refusal::TooFar),
        }
    }

    /// Emits an aligned constant of 8 bytes, where no instruction leads.
    pub(super) fn literal(&mut self, label: Label, value: u64) {
        while !self.address().0.is_multiple_of(8) {
            self.data(&[0]);
        }
        self.bind(label);
        self.data(&value.to_le_bytes());
    }

    pub(super) fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    pub(super) fn bind(&mut self, label: Label) {
        self.labels[label.0] = Some(self.bytes.len());
    }

    /// Emits a branch to a label; returns the offset of its relative field.
    pub(super) fn branch(&mut self, code: Code, label: Label) -> usize {
        let bytes = if is_short(code) { 1 } else { 4 };
        // Any target in reach serves until the label is known.
        self.put_branch(code, self.address());
        let field = self.bytes.len().saturating_sub(bytes);
        self.fixups.push(Fixup { field, bytes, label });
        field
    }

    /// Emits a near branch to an outside address; returns the offset of its relative field.
    pub(super) fn branch_out(&mut self, code: Code, target: RemoteAddr) -> usize {
        self.put_branch(code, target);
        self.bytes.len().saturating_sub(4)
    }

    /// `push qword [rip + label]`.
    pub(super) fn push_literal(&mut self, label: Label) {
        let here = i64::from_ne_bytes(self.address().0.to_ne_bytes());
        let operand = MemoryOperand::with_base_displ_size(Register::RIP, here, 8);
        self.put(Instruction::with1(Code::Push_rm64, operand));
        self.fixups.push(Fixup { field: self.bytes.len().saturating_sub(4), bytes: 4, label });
    }

    /// Emits nops such that a field after `opcode_bytes` more bytes is aligned to `bytes`.
    pub(super) fn align_field(&mut self, opcode_bytes: u64, bytes: u64) {
        let field = self.address().0.wrapping_add(opcode_bytes);
        self.nops((field.wrapping_neg() % bytes) as usize);
    }

    /// Emits a jump to any address, which changes rax; returns the offset of the aligned address in it.
    pub(super) fn jump_far(&mut self, target: RemoteAddr) -> usize {
        self.align_field(2, 8);
        let field = self.offset() + 2;
        self.put(Instruction::with2(Code::Mov_r64_imm64, Register::RAX, target.0));
        self.put(Instruction::with1(Code::Jmp_rm64, Register::RAX));
        field
    }

    /// Emits nops such that the next byte has the same offset in its 64-byte line as `like` has: the speed of a tight
    /// loop depends on it by up to a fifth.
    pub(super) fn align_like(&mut self, like: RemoteAddr) {
        self.nops((like.0.wrapping_sub(self.address().0) % 64) as usize);
    }

    fn nops(&mut self, mut bytes: usize) {
        // Recommended forms: SDM vol. 2, NOP.
        const NOPS: [&[u8]; 9] = [
            &[0x90],
            &[0x66, 0x90],
            &[0x0f, 0x1f, 0x00],
            &[0x0f, 0x1f, 0x40, 0x00],
            &[0x0f, 0x1f, 0x44, 0x00, 0x00],
            &[0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00],
            &[0x0f, 0x1f, 0x80, 0x00, 0x00, 0x00, 0x00],
            &[0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00],
            &[0x66, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00],
        ];
        while bytes > 0 {
            let length = bytes.min(NOPS.len());
            self.put_bytes(NOPS[length - 1]);
            bytes -= length;
        }
    }

    /// Emits a branch back to a bound label, in its short form where that reaches, as in the program.
    pub(super) fn branch_back(&mut self, near: Code, label: Label) {
        const SHORT: usize = 2;
        // A rel8 counts from the end of the branch and reaches 128 bytes back (SDM vol. 2, Jcc). Loops are in the hot part.
        let reaches = self.labels[label.0].is_some_and(|at| self.bytes.len() + SHORT - at <= 128);
        self.branch(if reaches { near.as_short_branch() } else { near }, label);
    }

    /// `mov register, gs:[from]`.
    pub(super) fn load(&mut self, register: Gpr, from: Displacement) {
        self.put_slot(MOV_LOAD, register, from);
    }

    /// `mov gs:[to], register`.
    pub(super) fn store(&mut self, to: Displacement, register: Gpr) {
        self.put_slot(MOV_STORE, register, to);
    }

    /// Saves a native register in a slot; it is free afterwards.
    pub(super) fn spill(&mut self, register: Gpr, to: Displacement) {
        self.store(to, register);
        // After the store: a thread that is stopped before it still has the value in the register.
        self.state.saved.insert(register, to);
    }

    /// Restores the native value of a register.
    pub(super) fn restore(&mut self, register: Gpr, from: Displacement) {
        self.load(register, from);
        // After the load: a thread that is stopped before it has the value in the slot only.
        self.state.saved.remove(register);
    }

    /// The code, where it lies, and its states.
    pub(super) fn finish(self) -> Result<(Vec<u8>, Parts, States), Refusal> {
        let mut bytes = self.bytes;
        if let Some(why) = self.failed {
            return Err(why);
        }
        let parts = Parts { split: self.parts.split.min(bytes.len()), ..self.parts };
        for fixup in &self.fixups {
            let target = self.labels[fixup.label.0].ok_or(Refusal::TooFar)?;
            let behind = parts.address(fixup.field).offset(fixup.bytes as u64);
            let relative = parts.address(target).0.wrapping_sub(behind.0).cast_signed();
            let fits = if fixup.bytes == 1 {
                i8::try_from(relative).is_ok()
            } else {
                i32::try_from(relative).is_ok()
            };
            if !fits {
                return Err(Refusal::TooFar);
            }
            let field = bytes.get_mut(fixup.field..fixup.field + fixup.bytes);
            field.ok_or(Refusal::TooFar)?.copy_from_slice(&relative.to_le_bytes()[..fixup.bytes]);
        }
        Ok((bytes, parts, self.states))
    }
}

fn is_short(code: Code) -> bool {
    code.is_jcc_short()
        || code.is_jmp_short()
        || code.is_jcx_short()
        || code.is_loop()
        || code.is_loopcc()
}
