//! The code that all copies of one flavour in a region share: the way to the tracer.
//!
//! What not: the exits of a block (`branches`, `side_exit`). An exit is a system call without effect (getpid). A
//! tracer that runs the thread with system-call stops sees it at its entry; without a tracer it returns, and the
//! thread continues natively. The kernel clobbers rax, rcx and r11 (SDM vol. 2, SYSCALL; Linux
//! arch/x86/entry/entry_64.S), so these are saved.

use base::RemoteAddr;
use iced_x86::{Code, Instruction, Register};

use super::area::{EXIT, EXIT_R11, EXIT_RAX, EXIT_RCX, POINTER, RESERVED, TARGET};
use super::emit::{Emitter, slot};
use super::writer::{SPILLED_RAX, SPILLED_RCX};
use super::{CommonCode, MISS, NativeRip, Saved, State, may_be_reserved};
use crate::register::Gpr;

/// `getpid` (Linux arch/x86/entry/syscalls/syscall_64.tbl).
const GETPID: u32 = 39;

/// Writes the shared code for one address. `reserved` is `None` for flavour `Count`.
///
/// # Panics
/// If `reserved` is not one of rbx, rbp, r12..r15.
#[must_use]
pub fn common_code(at: RemoteAddr, reserved: Option<Gpr>) -> CommonCode {
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
    let mut out = Emitter::new(at, state);
    let miss = out.offset();
    // The address leaves rcx before the system call, which clobbers rcx.
    out.store(TARGET, Gpr::RCX);
    out.state.rip = NativeRip::Slot(TARGET);
    out.store_constant(EXIT, MISS);
    out.restore(Gpr::RAX, SPILLED_RAX);
    out.restore(Gpr::RCX, SPILLED_RCX);

    let exit = out.offset();
    // `syscall` overwrites rcx and r11 (SDM vol. 2, SYSCALL), and rax gets the result.
    let clobbered = [(Gpr::RAX, EXIT_RAX), (Gpr::RCX, EXIT_RCX), (Gpr::R11, EXIT_R11)];
    for (register, aside) in clobbered {
        out.spill(register, aside);
    }
    if let Some(reserved) = reserved {
        // The tracer reads the end of the records here; without a tracer the thread must have its native register.
        out.store(POINTER, reserved);
        out.restore(reserved, RESERVED);
        out.state.pointer_in_slot = true;
    }
    out.put(Instruction::with2(Code::Mov_r32_imm32, Register::EAX, GETPID));
    out.put(Ok(Instruction::with(Code::Syscall)));
    for (register, aside) in clobbered {
        out.restore(register, aside);
    }
    // Reached only without a tracer: continue natively.
    out.put(Instruction::with1(Code::Jmp_rm64, slot(TARGET)));
    let (bytes, states) = out.finish().expect("no branch and no displacement counts from here");
    CommonCode { bytes, exit, miss, states }
}
