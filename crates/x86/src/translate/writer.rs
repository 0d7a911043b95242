//! The order of the pieces of a copy.
//!
//! ```text
//! hot
//! to leave      a jump to the exit at the head, where the check has only a short branch
//! entry         check of the room (or the counter), then header and roots of the record
//! body          the instructions, with the roots that appear on the way
//! end           the branch, rewritten
//! constants     return addresses of calls
//! cold
//! table entry   is the target in rcx this block's start? else to the next block of the chain
//! found         compares the witness, where there is one
//! hit           restores rcx and rax
//! leave         exit if there is no more room, or the counter is used up
//! side exits    their remaining work: the way in the record's header, a return elsewhere
//! stubs         the first targets of links
//! ```
//!
//! What not: the content of each piece, which is in the other modules.

use base::RemoteAddr;
use iced_x86::{Code, Instruction, MemoryOperand, Register};

use super::area::{EXIT, RESERVED, SPILL, TARGET};
use super::emit::{Emitter, Label};
use super::plan::{Plan, touches};
use super::side_exit::SideExit;
use super::{Exit, Flavour, NativeRip, Saved, Site, State, Translation, Witness};
use crate::block::{Block, End};
use crate::code::Window;
use crate::instruction::Flow;
use crate::refusal::Refusal;
use crate::register::Gpr;

/// First two spill slots: they hold rcx and rax on the way to and from the table.
pub(super) const SPILLED_RCX: i32 = SPILL;
pub(super) const SPILLED_RAX: i32 = SPILL + 8;
/// The third one: a register that a copy borrows between two instructions.
pub(super) const BORROWED: i32 = SPILL + 16;

/// An exit whose stub is not written yet.
struct WayOut {
    target: RemoteAddr,
    link: usize,
    stub: Label,
    /// The state at the branch.
    state: State,
}

pub(super) struct Writer<'a> {
    pub(super) out: Emitter,
    pub(super) block: &'a Block,
    pub(super) bytes: Vec<Window>,
    pub(super) site: &'a Site,
    /// The register with the record pointer; `Count` has none.
    pub(super) reserved: Option<Gpr>,
    /// The state at the entry.
    native: State,
    /// The reserved register holds its native value; `Some(true)` if that has changed since.
    pub(super) swapped: Option<bool>,
    /// Side exits whose cold part is not written yet.
    pub(super) side_exits: Vec<SideExit>,
    exits: Vec<Exit>,
    ways_out: Vec<WayOut>,
    literals: Vec<(Label, u64)>,
}

/// Offsets of the pieces at the start of a block, and labels of what they lead to.
struct Head {
    entry: usize,
    at_entry: Label,
    leave: Label,
    /// Whether rcx is in its spill slot at `leave`.
    borrows: bool,
}

impl<'a> Writer<'a> {
    pub(super) fn new(block: &'a Block, bytes: Vec<Window>, site: &'a Site) -> Writer<'a> {
        let reserved = (site.flavour != Flavour::Count).then_some(site.reserved);
        let mut saved = Saved::default();
        reserved.into_iter().for_each(|register| saved.insert(register, RESERVED));
        let state = State {
            rip: NativeRip::Known(block.start),
            saved,
            instruction: Some(0),
            recorded: false,
            pointer_in_slot: false,
            looping: false,
        };
        Writer {
            native: state.clone(),
            out: Emitter::new(site.at, site.cold, state),
            block,
            bytes,
            site,
            reserved,
            swapped: None,
            side_exits: Vec::new(),
            exits: Vec::new(),
            ways_out: Vec::new(),
            literals: Vec::new(),
        }
    }

    pub(super) fn write(mut self, plan: Plan) -> Result<Translation, Refusal> {
        let head = self.head();
        match plan.back {
            Some(back) => self.summarised_loop(&plan, back),
            None => {
                self.open_record(&plan);
                self.body(&plan);
                self.end();
            }
        }
        // Calls read them each time.
        let constants = self.out.offset();
        for (label, value) in std::mem::take(&mut self.literals) {
            self.out.literal(label, value);
        }
        let constants = constants..self.out.offset();
        self.out.begin_cold();
        let (table, chain) = self.table(head.at_entry);
        self.leave(head.leave, head.borrows);
        self.finish_side_exits(&plan);
        self.stubs();
        let (bytes, parts, states) = self.out.finish()?;
        Ok(Translation {
            bytes,
            parts,
            entry: head.entry,
            table,
            chain,
            exits: self.exits,
            constants,
            states,
            record: plan.layout,
            written: plan.written,
        })
    }

    fn head(&mut self) -> Head {
        let borrows = self.check_borrows();
        let (leave, near) = (self.out.label(), self.out.label());
        if borrows {
            let native = self.out.state.saved;
            self.out.state.saved.insert(Gpr::RCX, SPILLED_RCX);
            self.out.bind(near);
            self.out.branch(Code::Jmp_rel32_64, leave);
            self.out.state.saved = native;
        }
        let at_entry = self.out.label();
        self.out.bind(at_entry);
        let entry = self.out.offset();
        self.check(if borrows { near } else { leave }, borrows);
        Head { entry, at_entry, leave, borrows }
    }

    /// The way from the table to `entry`. Returns where it is, and the field that leads to the next block of the chain.
    fn table(&mut self, entry: Label) -> (std::ops::Range<usize>, usize) {
        let start = self.block.start.0;
        self.out.state = self.native.clone();
        self.out.state.rip = NativeRip::Register(Gpr::RCX, 0);
        self.out.state.instruction = None;
        self.out.state.saved.insert(Gpr::RCX, SPILLED_RCX);
        self.out.state.saved.insert(Gpr::RAX, SPILLED_RAX);
        let hit = self.out.label();
        let found = if self.site.witness.is_some() { self.out.label() } else { hit };
        // The table has chosen this block by the low 16 bits of the target, so all bits are
        // compared here. The program may use its flags after an indirect branch: the difference
        // goes into rcx, which jrcxz tests without them.
        let begin = self.out.offset();
        self.add_to_rcx(start.wrapping_neg());
        self.out.state.rip = NativeRip::Register(Gpr::RCX, start);
        self.out.branch(Code::Jrcxz_rel8_64, found);
        // The next block, or the shared code, needs the native target itself.
        self.add_to_rcx(start);
        self.out.state.rip = NativeRip::Register(Gpr::RCX, 0);
        // That may lie in another region, out of a rel32's reach.
        let chain = self.out.jump_far(self.site.common.miss);

        if let Some(witness) = self.site.witness {
            self.at_instruction(0);
            self.out.bind(found);
            self.compare(witness, hit);
        }
        self.at_instruction(0);
        self.out.bind(hit);
        self.out.restore(Gpr::RAX, SPILLED_RAX);
        self.out.restore(Gpr::RCX, SPILLED_RCX);
        self.out.branch(Code::Jmp_rel32_64, entry);
        (begin..self.out.offset(), chain)
    }

    /// Goes on at `same` where the word is as it was, without changing flags; else to the shared code. rax and rcx are free.
    fn compare(&mut self, witness: Witness, same: Label) {
        let there = MemoryOperand::with_displ(witness.at.0, 8);
        self.out.put(Instruction::with2(Code::Mov_EAX_moffs32, Register::EAX, there));
        let less = i64::from(witness.word.wrapping_neg().cast_signed());
        let difference = MemoryOperand::with_base_displ(Register::RAX, less);
        self.out.put(Instruction::with2(Code::Lea_r32_m, Register::ECX, difference));
        self.out.branch(Code::Jrcxz_rel8_64, same);
        self.out.set(Gpr::RCX, self.block.start.0);
        self.out.branch_out(Code::Jmp_rel32_64, self.site.common.miss);
    }

    /// `rcx += value` without changing flags.
    fn add_to_rcx(&mut self, value: u64) {
        self.out.set(Gpr::RAX, value);
        let sum = MemoryOperand::with_base_index(Register::RCX, Register::RAX);
        self.out.put(Instruction::with2(Code::Lea_r64_m, Register::RCX, sum));
    }

    /// The exit at the head; `borrowed`: rcx is then in its spill slot.
    fn leave(&mut self, leave: Label, borrowed: bool) {
        self.out.state = self.native.clone();
        self.out.bind(leave);
        if borrowed {
            self.out.state.saved.insert(Gpr::RCX, SPILLED_RCX);
        }
        let stub = self.out.offset();
        if borrowed {
            self.out.restore(Gpr::RCX, SPILLED_RCX);
        }
        let number = self.site.first_exit;
        let target = self.block.start;
        self.stub(target, number);
        self.exits.push(Exit { number, target, link: stub, stub, linkable: false });
    }

    fn body(&mut self, plan: &Plan) {
        let ending = self.ending();
        for number in 0..self.block.instructions.len() {
            self.at_instruction(number);
            if self.ends_run(plan, number) {
                self.swap_out();
            }
            self.store_roots(plan, number);
            if plan.timed == Some(number) {
                self.timed_load(plan, number);
            } else if Some(number) != ending {
                self.instruction(number);
            }
        }
        // With an ending, the state stays before it; else it is after the last instruction.
        if ending.is_none() {
            self.behind_last();
        }
        self.swap_out();
    }

    /// Whether the reserved register must hold the record pointer again before an instruction.
    fn ends_run(&self, plan: &Plan, number: usize) -> bool {
        let Some(reserved) = self.reserved else { return false };
        let instruction = &self.block.instructions[number];
        let stores = plan.stores.iter().any(|store| store.at == number);
        stores
            || plan.timed == Some(number)
            || instruction.flow() != Flow::Next
            || !touches(instruction, reserved)
    }

    /// Writes one instruction that is not the end.
    pub(super) fn instruction(&mut self, number: usize) {
        let instruction = &self.block.instructions[number];
        match instruction.flow() {
            Flow::Next => self.copy(number),
            // Followed: its target is the next instruction.
            Flow::Jump(_) => {}
            Flow::Call(_) => self.push_return_address(instruction.next_address()),
            Flow::Conditional(taken) => self.side_exit(number, taken),
            Flow::Return => self.followed_return(number),
            _ => self.out.fail(Refusal::Invalid),
        }
    }

    /// The index of the last instruction, if it is the end itself.
    pub(super) fn ending(&self) -> Option<usize> {
        let last = self.block.instructions.len().checked_sub(1);
        last.filter(|_| self.block.end.is_last_instruction())
    }

    fn behind_last(&mut self) {
        if let End::FallThrough(at) | End::Refused { at, .. } | End::MissingBytes(at) =
            self.block.end
        {
            self.at_target(at);
        }
    }

    pub(super) fn at_instruction(&mut self, number: usize) {
        self.out.state.rip = NativeRip::Known(self.block.instructions[number].address());
        self.out.state.instruction = Some(number);
    }

    /// Sets the state after the block, before the instruction at `target`.
    pub(super) fn at_target(&mut self, target: RemoteAddr) {
        self.out.state.rip = NativeRip::Known(target);
        self.out.state.instruction = None;
    }

    /// `push` of a native address as one store, so that the `ret` that loads it gets it by store forwarding.
    pub(super) fn push_return_address(&mut self, return_to: RemoteAddr) {
        let label = self.out.label();
        self.literals.push((label, return_to.0));
        self.out.push_literal(label);
    }

    /// A branch (`jmp` or `jcc`, near form) to a native address, through a stub until it is linked.
    pub(super) fn link(&mut self, code: Code, target: RemoteAddr) {
        // The opcodes before the field: e9 for jmp, 0f 8x for jcc.
        let opcode_bytes = if code == Code::Jmp_rel32_64 { 1 } else { 2 };
        self.out.align_field(opcode_bytes, 4);
        let stub = self.out.label();
        let link = self.out.branch(code, stub);
        self.ways_out.push(WayOut { target, link, stub, state: self.out.state.clone() });
    }

    fn stubs(&mut self) {
        for way_out in std::mem::take(&mut self.ways_out) {
            // The exit at the head has the first number.
            let number = self.site.first_exit.wrapping_add(self.exits.len() as u32);
            let WayOut { target, link, stub: label, state } = way_out;
            self.out.state = state;
            self.at_target(target);
            self.out.bind(label);
            let stub = self.out.offset();
            self.stub(target, number);
            self.exits.push(Exit { number, target, link, stub, linkable: true });
        }
    }

    fn stub(&mut self, target: RemoteAddr, number: u32) {
        // There is no store of a 64-bit constant (SDM vol. 2, MOV), and no register is free.
        let halves = [(TARGET, target.0 as u32), (TARGET + 4, (target.0 >> 32) as u32)];
        for (to, value) in halves.into_iter().chain([(EXIT, number)]) {
            self.out.store_constant(to, value);
        }
        self.out.branch_out(Code::Jmp_rel32_64, self.site.common.exit);
    }
}
