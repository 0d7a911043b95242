//! A jump at a known address that runs a known number of times.
//!
//! What for: what it costs to count the executions of one. What not: the counting (`burst::native_count`).

use base::RemoteAddr;

/// Executes one direct jump so many times, and says where it is; `None` on processors without such a loop.
#[inline(never)]
#[must_use]
pub fn jump(times: u64) -> Option<RemoteAddr> {
    run(times)
}

#[cfg(target_arch = "x86_64")]
fn run(times: u64) -> Option<RemoteAddr> {
    let at: u64;
    // SAFETY: registers only, all of them named as outputs; no memory, no stack. It ends: `times` counts down to 0.
    unsafe {
        std::arch::asm!(
            "lea {at}, [rip + 2f]",
            "test {times}, {times}",
            "jz 4f",
            "2:",
            "jmp 3f",
            "3:",
            "sub {times}, 1",
            "jnz 2b",
            "4:",
            at = out(reg) at,
            times = inout(reg) times => _,
            options(nomem, nostack),
        );
    }
    Some(RemoteAddr(at))
}

#[cfg(not(target_arch = "x86_64"))]
fn run(_: u64) -> Option<RemoteAddr> {
    None
}
