//! The unwinder of x86-64.
//!
//! What not: other architectures; each has a file with the same names.

pub use framehop::x86_64::{
    CacheX86_64 as Cache, UnwindRegsX86_64 as UnwindRegisters, UnwinderX86_64 as NativeUnwinder,
};

/// The numbers of `sys::perf::USER_REGISTERS` in samples of perf: bp, sp, ip.
pub const REGISTER_NUMBERS: [u32; 3] = [6, 7, 8];

/// The machine's name as uname(2) has it.
pub const MACHINE: &str = "x86_64";

/// Registers in the order of `sys::perf::USER_REGISTERS`.
pub fn unwind_registers(registers: &[u64; 3]) -> (u64, UnwindRegisters) {
    let [bp, sp, ip] = *registers;
    (ip, UnwindRegisters::new(ip, sp, bp))
}

/// An `.eh_frame` as the unwinder needs it, where the file's own does not do.
pub fn changed_table(_: &[u8]) -> Option<Vec<u8>> {
    None
}

/// rbp.
pub fn frame_pointer(registers: &UnwindRegisters) -> u64 {
    registers.bp()
}
