//! The code that all copies of one flavour in a region share: the way to the tracer.
//!
//! What not: the exits of a block (`branches`, `side_exit`). An exit is a system call without effect (getpid). A
//! tracer that runs the thread with system-call stops sees it at its entry; without a tracer it returns, and the
//! thread continues natively. The kernel clobbers rax, rcx and r11 (SDM vol. 2, SYSCALL; Linux
//! arch/x86/entry/entry_64.S), so these are saved.
//!
//! A stop and its two wake-ups take the thread up to a tenth of a millisecond. So where a tracer looks for it on another CPU, the
//! thread first asks in memory, and goes on where the answer leads. Without one it makes the call after `LOOKS` looks.

use base::RemoteAddr;
use iced_x86::{Code, Instruction, Register};

use super::area::{
    ANSWER, ASKED, EXIT, EXIT_R11, EXIT_RAX, EXIT_RCX, EXIT_RDX, HEARD, POINTER, RESERVED, TARGET,
};
use super::emit::{Emitter, Label, at, slot};
use super::writer::{SPILLED_RAX, SPILLED_RCX};
use super::{CommonCode, MISS, NativeRip, Saved, State, may_be_reserved};
use crate::register::Gpr;

/// `getpid` (Linux arch/x86/entry/syscalls/syscall_64.tbl).
const GETPID: u32 = 39;

/// How often a thread looks for an answer: with a pause of 15 to 50 ns each, 0.5 to 1.5 ms. Most answers take 10 to 50 us.
const LOOKS: u32 = 30_000;
/// Registers that an exit uses, and their slots.
const ASIDE: [(Gpr, i32); 3] = [(Gpr::RAX, EXIT_RAX), (Gpr::RCX, EXIT_RCX), (Gpr::R11, EXIT_R11)];

/// Writes the shared code for one address. `reserved` is `None` for flavour `Count`.
///
/// # Panics
/// If `reserved` is not one of rbx, rbp, r12..r15.
#[must_use]
pub fn common_code(place: RemoteAddr, reserved: Option<Gpr>) -> CommonCode {
    assert!(reserved.is_none_or(may_be_reserved), "{reserved:?} cannot be reserved");
    let mut saved = Saved::default();
    reserved.into_iter().for_each(|register| saved.insert(register, RESERVED));
    saved.insert(Gpr::RCX, SPILLED_RCX);
    saved.insert(Gpr::RAX, SPILLED_RAX);
    let state = State {
        rip: NativeRip::Register(Gpr::RCX, 0),
        saved,
        instruction: None,
        recorded: true,
        pointer_in_slot: false,
        looping: false,
    };
    let mut out = Emitter::new(place, place, state);
    let miss = out.offset();
    // The address leaves rcx before the system call, which clobbers rcx.
    out.store(TARGET, Gpr::RCX);
    out.state.rip = NativeRip::Slot(TARGET);
    out.store_constant(EXIT, MISS);
    out.restore(Gpr::RAX, SPILLED_RAX);
    out.restore(Gpr::RCX, SPILLED_RCX);

    let exit = out.offset();
    // `syscall` overwrites rcx and r11 (SDM vol. 2, SYSCALL), and rax gets the result.
    for (register, aside) in ASIDE {
        out.spill(register, aside);
    }
    if let Some(reserved) = reserved {
        // The tracer reads the end of the records here.
        out.store(POINTER, reserved);
    }
    let call = out.label();
    ask(&mut out, call);
    out.bind(call);
    if let Some(reserved) = reserved {
        // Without a tracer the thread must have its native register.
        out.restore(reserved, RESERVED);
        out.state.pointer_in_slot = true;
    }
    out.put(Instruction::with2(Code::Mov_r32_imm32, Register::EAX, GETPID));
    out.put(Ok(Instruction::with(Code::Syscall)));
    for (register, aside) in ASIDE {
        out.restore(register, aside);
    }
    // Reached only without a tracer: continue natively.
    out.put(Instruction::with1(Code::Jmp_rm64, slot(TARGET)));
    let (bytes, _, states) = out.finish().expect("no branch and no displacement counts from here");
    CommonCode { bytes, exit, miss, states }
}

/// Asks the tracer in memory. Goes on where the answer leads, as at the entry of a block, or at `call`. rax and rcx are free;
/// flags may not change.
fn ask(out: &mut Emitter, call: Label) {
    let asking = out.state.clone();
    let (none, look) = (out.label(), out.label());
    out.load(Gpr::RCX, HEARD);
    out.branch(Code::Jrcxz_rel8_64, call);
    // In this order: who sees the question sees no former answer.
    out.put(Instruction::with2(Code::Mov_rm64_imm32, slot(ANSWER), 0));
    out.spill(Gpr::RDX, EXIT_RDX);
    out.put(Ok(Instruction::with(Code::Rdtsc)));
    out.restore(Gpr::RDX, EXIT_RDX);
    out.put(Instruction::with2(Code::Mov_rm32_r32, slot(ASKED), Register::EAX));
    out.put(Instruction::with2(Code::Mov_r32_imm32, Register::EAX, LOOKS));
    out.bind(look);
    out.put(Ok(Instruction::with(Code::Pause)));
    out.load(Gpr::RCX, ANSWER);
    out.branch(Code::Jrcxz_rel8_64, none);
    out.put(Instruction::with2(Code::Lea_r64_m, Register::RCX, at(Gpr::RCX, -1)));
    out.branch(Code::Jrcxz_rel8_64, call);
    for (register, aside) in ASIDE {
        out.restore(register, aside);
    }
    // Cross-modifying code asks for a serializing instruction where other bytes were fetched before (SDM vol. 3, 9.1.3; AMD64 APM
    // vol. 2, 7.6.1). Here none were: the thread has waited since before the bytes were written, as threads do for a JIT compiler.
    out.put(Instruction::with1(Code::Jmp_rm64, slot(ANSWER)));
    out.state = asking;
    out.bind(none);
    out.put(Instruction::with2(Code::Lea_r32_m, Register::EAX, at(Gpr::RAX, -1)));
    out.put(Instruction::with2(Code::Mov_r32_rm32, Register::ECX, Register::EAX));
    out.branch(Code::Jrcxz_rel8_64, call);
    out.branch(Code::Jmp_rel8_64, look);
}
