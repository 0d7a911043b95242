//! The wait site of a thread that waits for long and whose stack was not copied when it left its CPU.
//!
//! What for: the longest waits matter most. Thinning may have left them out, or they began before the recording. What
//! not: short waits; reading takes some 30 us per thread. No thread is stopped: a waiting thread does not run.
//!
//! Source: `/proc/PID/task/TID/syscall` gives the system call with its arguments, the stack pointer and the
//! instruction pointer (proc_pid_syscall(5)); reading it needs the right to trace the process. It does not give the
//! frame pointer, so unwinding ends at the first function that needs one.

use base::{Pid, RemoteAddr, Tid};
use facts::SinkError;

use crate::address_space::CopiedStack;
use crate::perf::WaitSite;
use crate::recorder::{Moment, Position, Recorder};

/// Bytes of the stack that are read.
const STACK_BYTES: usize = 8192;

/// The site of a thread that is in a system call now. `None`: it runs, has ended, or may not be read.
pub fn site(at: Moment, recorder: &mut Recorder<'_>) -> Result<Option<WaitSite>, SinkError> {
    let (pid, tid) = (at.pid, at.tid);
    let Some(call) = system_call(pid, tid) else { return Ok(None) };
    let mut bytes = [0; STACK_BYTES];
    let got = sys::trace::read_memory(pid, call.stack_pointer, &mut bytes);
    let registers = sys::perf::user_registers(0, call.stack_pointer.0, call.instruction_pointer.0);
    let stack = CopiedStack { registers: &registers, bytes: &bytes[..got] };
    let position = Position {
        kernel: &[],
        ip: call.instruction_pointer,
        user: Some(stack),
        chain: &[],
        guest: None,
    };
    let stack = recorder.stack_of(at, position)?;
    Ok(stack.map(|stack| WaitSite { stack: Some(stack), object: Some(call.argument) }))
}

struct SystemCall {
    argument: RemoteAddr,
    stack_pointer: RemoteAddr,
    instruction_pointer: RemoteAddr,
}

fn system_call(pid: Pid, tid: Tid) -> Option<SystemCall> {
    parse(&std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/syscall")).ok()?)
}

/// `202 0x7f.. 0x189 0x2 0x0 0x0 0x0 0x7ffe.. 0x7f..`; `running`, or `-1` and two addresses, when it is in no call.
fn parse(text: &str) -> Option<SystemCall> {
    let mut words = text.split_ascii_whitespace();
    words.next()?.parse::<u32>().ok()?;
    let addresses: Option<Vec<RemoteAddr>> = words
        .map(|word| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok().map(RemoteAddr))
        .collect();
    match addresses?.as_slice() {
        [argument, _, _, _, _, _, stack_pointer, instruction_pointer] => Some(SystemCall {
            argument: *argument,
            stack_pointer: *stack_pointer,
            instruction_pointer: *instruction_pointer,
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_thread_in_a_system_call_has_a_place() {
        let call = parse("202 0x7f01 0x189 0x2 0x0 0x0 0x0 0x7ffe08 0x55aa\n").unwrap();
        assert_eq!(call.argument, RemoteAddr(0x7f01));
        assert_eq!(call.stack_pointer, RemoteAddr(0x7ffe08));
        assert_eq!(call.instruction_pointer, RemoteAddr(0x55aa));
        for other in ["running\n", "-1 0x7ffe08 0x55aa\n", "", "202 0x1\n", "202 1 2 3 4 5 6 7 8"] {
            assert!(parse(other).is_none(), "{other}");
        }
    }
}
