//! System calls that a stopped thread of the program makes on our behalf.
//!
//! What for: mapping the code cache into the program, and unmapping it. What not: when, and which ones (`space`).
//!
//! How, so that even our death in the middle does no harm: we write a few bytes of code into the padding after the
//! code of some file (a *cave*, unused zeroes). The code makes the call, loads the native value of every register
//! that the call needed, and jumps to where the thread was. A living tracer stops the thread right after the call and
//! restores everything itself; without a tracer the code does. The signal mask is not changed: a signal that arrives
//! in between ends the calls and is delivered in native state.
//!
//! ```text
//! cave:  syscall
//!        mov rax, native rax;  ... rdi rsi rdx r10 r8 r9 rcx r11
//!        jmp [rip+0];  native rip
//!        "fathom\0\0"
//! ```

use std::cell::Cell;
use std::io;
use std::sync::OnceLock;
use std::time::Duration;

use base::{RemoteAddr, Tid};
use sys::trace::{self, Alarm, Happened, Registers, Stop};
use tracee::status::{field, from_state_on};

/// Bytes of a cave.
pub const CAVE_BYTES: u64 = 120;
const NAME_AT: usize = 112;
const NAME: &[u8] = b"fathom\0\0";
/// After this time the tracer gives up, see [`CallError::Lost`]. Calls take microseconds, but a thread may have to
/// wait for a CPU, for memory, or while its control group is frozen.
const PATIENCE: Duration = Duration::from_secs(10);

/// Registers that carry arguments, and those that a system call changes, by the numbers of the encoding:
/// rax rdi rsi rdx r10 r8 r9 rcx r11 (System V ABI, AMD64 supplement, A.2.1).
const INVOLVED: [u8; 9] = [0, 7, 6, 2, 10, 8, 9, 1, 11];

/// Why a call was not made.
#[derive(Debug)]
pub enum CallError {
    /// This stop came first. The thread is in its native state and still stopped there.
    Stopped(Stop),
    /// The thread is gone.
    Gone,
    /// The kernel refused the call.
    Refused,
    /// ptrace failed.
    Trace,
    /// The thread neither stopped nor ended. It will stop at the call's exit, and only our end releases it from
    /// there.
    Lost,
}

/// A stopped thread that makes calls for us. It gets its native state back when this is dropped.
pub struct RemoteCalls<'a> {
    tid: Tid,
    native: Registers,
    cave: RemoteAddr,
    alarm: &'a Alarm,
    /// The thread is still in the cave, or will be.
    lost: Cell<bool>,
}

impl<'a> RemoteCalls<'a> {
    /// Prepares a stopped thread whose native registers are `native`. `cave` is the address of zeroes in executable
    /// memory. Refused where the thread filters its calls: it may have begun to since it was last examined.
    pub fn begin(
        tid: Tid,
        native: &Registers,
        cave: RemoteAddr,
        alarm: &'a Alarm,
    ) -> io::Result<RemoteCalls<'a>> {
        let status = std::fs::read_to_string(format!("/proc/{tid}/status"))?;
        if are_filtered(&status) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let calls = RemoteCalls { tid, native: *native, cave, alarm, lost: Cell::new(false) };
        trace::overwrite(tid, cave, &code(native))?;
        Ok(calls)
    }

    /// The address of the text `fathom`, for the duration of the calls.
    #[must_use]
    pub fn name(&self) -> u64 {
        self.cave.0 + NAME_AT as u64
    }

    /// Minor faults of the thread so far: `/proc/TID/stat`, field 10 (proc_pid_stat(5)).
    #[must_use]
    pub fn minor_faults(&self) -> Option<u64> {
        let stat = std::fs::read_to_string(format!("/proc/{0}/task/{0}/stat", self.tid)).ok()?;
        from_state_on(&stat)?.split(' ').nth(7)?.parse().ok()
    }

    /// Makes a call and returns what it returned.
    pub fn call(&self, number: i64, arguments: &[u64]) -> Result<u64, CallError> {
        let mut registers = self.native;
        registers.set_general(0, number.cast_unsigned());
        for (register, value) in INVOLVED[1..7].iter().zip(arguments) {
            registers.set_general(usize::from(*register), *value);
        }
        registers.set_instruction_pointer(self.cave);
        registers.forget_system_call();
        registers.set(self.tid).map_err(|_| CallError::Trace)?;
        // It stops twice: at the entry of the call and at its exit.
        for _ in 0..2 {
            trace::resume_to_system_call(self.tid, 0).map_err(|_| CallError::Trace)?;
            match self.alarm.wait(self.tid, PATIENCE).map_err(|_| CallError::Trace)? {
                Happened::Stopped(Stop::SystemCall) => {}
                Happened::Stopped(stop) => {
                    self.native.set(self.tid).map_err(|_| CallError::Trace)?;
                    return Err(CallError::Stopped(stop));
                }
                Happened::Ended => return Err(CallError::Gone),
                Happened::Nothing => {
                    self.lost.set(true);
                    return Err(CallError::Lost);
                }
            }
        }
        let result = Registers::of(self.tid).map_err(|_| CallError::Trace)?.general(0);
        self.native.set(self.tid).map_err(|_| CallError::Trace)?;
        match result.cast_signed() {
            -4095..=-1 => Err(CallError::Refused),
            _ => Ok(result),
        }
    }
}

impl Drop for RemoteCalls<'_> {
    fn drop(&mut self) {
        if self.lost.get() {
            return;
        }
        // An error means that the thread is gone. Then so is its memory, or another thread's burst finds the cave
        // used and takes another.
        let _ = trace::overwrite(self.tid, self.cave, &[0; CAVE_BYTES as usize]);
    }
}

/// Whether `/proc/TID/status` shows a filter of system calls (seccomp(2)). A filter that also applies to us (a
/// container's) allows what we do; one of the program's own may kill it.
#[must_use]
pub fn are_filtered(status: &str) -> bool {
    static OWN: OnceLock<u32> = OnceLock::new();
    let filters = |text: &str| {
        let count = field(text, "Seccomp_filters:").and_then(|text| text.parse().ok());
        count.unwrap_or(0u32)
    };
    let own = || filters(&std::fs::read_to_string("/proc/self/status").unwrap_or_default());
    // Kernels before 5.9 do not count filters: any of them may be the program's own.
    let uncounted = field(status, "Seccomp_filters:").is_none();
    let strict = match field(status, "Seccomp:") {
        Some("1") => true,
        Some("2") => uncounted,
        _ => false,
    };
    strict || filters(status) > *OWN.get_or_init(own)
}

/// Whether these bytes begin with code, or a rest of it, that a killed tracer left behind. A thread may still be in
/// it.
#[must_use]
pub fn is_left_behind(bytes: &[u8]) -> bool {
    bytes.get(NAME_AT..CAVE_BYTES as usize).is_some_and(|name| name == NAME)
}

fn code(native: &Registers) -> Vec<u8> {
    let mut code = vec![0x0f, 0x05];
    for register in INVOLVED {
        // mov r64, imm64 (SDM vol. 2, MOV: REX.W + B8+rd io)
        code.extend([0x48 | register >> 3, 0xb8 + (register & 7)]);
        code.extend(native.general(usize::from(register)).to_le_bytes());
    }
    // jmp [rip+0] (SDM vol. 2, JMP: FF /4)
    code.extend([0xff, 0x25, 0, 0, 0, 0]);
    code.extend(native.instruction_pointer().0.to_le_bytes());
    code.resize(NAME_AT, 0);
    code.extend(NAME);
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_fills_its_cave() {
        assert_eq!(2 + INVOLVED.len() * 10 + 14, 106);
        const { assert!(106 <= NAME_AT) };
        assert_eq!(NAME_AT as u64 + 8, CAVE_BYTES);
    }
}
