//! A load between two readings of the time-stamp counter, where the load costs almost nothing.
//!
//! What for: measures the cost of the readings themselves, which every timed load of a program includes. What not:
//! statistics. Assumption: the instructions between the readings are those that `x86::translate` writes around a load
//! of the program, including stores and loads of borrowed registers, because the fences wait for them.

/// Fills `cycles` with differences of the time-stamp counter around loads from the first-level cache. Returns false,
/// and does nothing, if there is no such counter.
#[must_use]
pub fn time_cached_loads(cycles: &mut [u32]) -> bool {
    for place in cycles {
        let Some(difference) = time_cached_load() else { return false };
        *place = difference;
    }
    true
}

#[cfg(target_arch = "x86_64")]
fn time_cached_load() -> Option<u32> {
    let word = 1u64;
    // rax, rdx, and both stamps.
    let mut slots = [0u64; 3];
    // Safety: reads `word` and writes within `slots`, both live on our stack; registers are declared, flags and the stack
    // pointer stay. LFENCE is SSE2, which every x86-64 CPU has; Linux leaves RDTSC to user space unless asked not to.
    unsafe {
        std::arch::asm!(
            "mov qword ptr [{slots}], rax",
            "mov qword ptr [{slots} + 8], rdx",
            "lfence",
            "rdtsc",
            "mov dword ptr [{slots} + 16], eax",
            "mov rdx, qword ptr [{slots} + 8]",
            "mov rax, qword ptr [{slots}]",
            "lfence",
            "mov {loaded}, qword ptr [{word}]",
            "mov qword ptr [{slots}], rax",
            "mov qword ptr [{slots} + 8], rdx",
            "lfence",
            "rdtsc",
            "mov dword ptr [{slots} + 20], eax",
            slots = in(reg) slots.as_mut_ptr(),
            word = in(reg) &raw const word,
            loaded = out(reg) _,
            inout("rax") 0u64 => _,
            inout("rdx") 0u64 => _,
            options(nostack, preserves_flags),
        );
    }
    Some(((slots[2] >> 32) as u32).wrapping_sub(slots[2] as u32))
}

#[cfg(not(target_arch = "x86_64"))]
fn time_cached_load() -> Option<u32> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn each_reading_takes_time() {
        let mut cycles = [0; 100];
        assert!(time_cached_loads(&mut cycles));
        assert!(cycles.iter().all(|cycles| *cycles > 0), "{cycles:?}");
    }
}
