//! The unwinder of aarch64.
//!
//! What not: other architectures; each has a file with the same names. Assumption: user addresses have at most 48 bits
//! (more only where a program asks for them, Documentation/arm64/memory.rst), so that the rest of a return address may be a
//! signature of pointer authentication.

use framehop::aarch64::PtrAuthMask;
pub use framehop::aarch64::{
    CacheAarch64 as Cache, UnwindRegsAarch64 as UnwindRegisters, UnwinderAarch64 as NativeUnwinder,
};

/// The numbers of `sys::perf::USER_REGISTERS` in samples of perf: x29, lr, sp, pc.
pub const REGISTER_NUMBERS: [u32; 4] = [29, 30, 31, 32];

/// The machine's name as uname(2) has it.
pub const MACHINE: &str = "aarch64";

const ADDRESS_BITS: u64 = (1 << 48) - 1;

/// Registers in the order of `sys::perf::USER_REGISTERS`.
pub fn unwind_registers(registers: &[u64; 4]) -> (u64, UnwindRegisters) {
    let [fp, lr, sp, pc] = *registers;
    (pc, UnwindRegisters::new_with_ptr_auth_mask(PtrAuthMask(ADDRESS_BITS), lr, sp, fp))
}

pub use super::signed_returns::without_marks as changed_table;

/// x29.
pub fn frame_pointer(registers: &UnwindRegisters) -> u64 {
    registers.fp()
}
