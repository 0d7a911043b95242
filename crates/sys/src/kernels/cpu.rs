//! The CPU under our thread: its identification, its clock, and staying on it.
//!
//! What for: CPUID leaves as raw registers, the time-stamp counter, pinning, the thread's fault counter.
//! What not: no decoding of CPUID (crate `machine`), no frequency measurement (crate `calibrate`).

use std::io;

use base::{Bytes, CpuId};

use super::KernelError;

/// Registers EAX, EBX, ECX, EDX of a CPUID leaf on the CPU we happen to run on; `None` on other architectures.
/// A leaf above the highest one answers as Intel's highest leaf does (SDM vol. 2A, CPUID): ask leaf 0 first.
#[must_use]
pub fn cpuid(leaf: u32, subleaf: u32) -> Option<[u32; 4]> {
    #[cfg(target_arch = "x86_64")]
    {
        #[allow(unused_unsafe, reason = "the intrinsic became a safe function in Rust 1.94")]
        // Safety: every x86-64 CPU has CPUID; it changes nothing but these four registers.
        let answer = unsafe { std::arch::x86_64::__cpuid_count(leaf, subleaf) };
        Some([answer.eax, answer.ebx, answer.ecx, answer.edx])
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = (leaf, subleaf);
        None
    }
}

/// The time-stamp counter of the current CPU; `None` where there is none. Loads and stores around it may still
/// be under way (SDM vol. 2B, RDTSC): bracket many of them, never one.
#[must_use]
pub fn read_tsc() -> Option<u64> {
    #[cfg(target_arch = "x86_64")]
    {
        #[allow(unused_unsafe, reason = "the intrinsic may become a safe function as CPUID's did")]
        // Safety: RDTSC only reads a counter. Linux leaves it enabled for user space unless a process asks
        // for PR_TSC_SIGSEGV, which we do not.
        let ticks = unsafe { std::arch::x86_64::_rdtsc() };
        Some(ticks)
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        None
    }
}

/// The counter that hardware stamps its traces with: the time-stamp counter, on aarch64 the virtual count of the generic timer
/// (Arm ARM, D12). It runs alike on all CPUs.
#[must_use]
pub fn read_trace_clock() -> Option<u64> {
    #[cfg(target_arch = "aarch64")]
    {
        let ticks: u64;
        // Safety: reads a counter that Linux leaves readable for user space, where the vDSO uses it.
        unsafe {
            std::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack));
        }
        Some(ticks)
    }
    #[cfg(not(target_arch = "aarch64"))]
    {
        read_tsc()
    }
}

/// Size of a base page.
#[must_use]
pub fn page_bytes() -> Bytes {
    Bytes(crate::process::page_size() as u64)
}

/// Minor faults of the calling thread so far (`getrusage(RUSAGE_THREAD)`, man 2 getrusage).
#[must_use]
pub fn thread_minor_faults() -> u64 {
    // Safety: an all-zero rusage is a valid value of this plain C struct.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // Safety: `usage` is a live struct of the size that the call fills.
    if unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) } != 0 {
        return 0;
    }
    u64::try_from(usage.ru_minflt).unwrap_or(0)
}

/// Largest CPU number that a mask is made for: eight times what any kernel is built with today.
const MAX_CPU: u32 = 65_535;

/// Binds the calling thread to one CPU (`sched_setaffinity`).
///
/// # Errors
/// [`KernelError::Pin`] when the CPU is offline, outside our cpuset, or absurd.
pub fn pin_current_thread(cpu: CpuId) -> Result<(), KernelError> {
    if cpu.0 > MAX_CPU {
        return Err(KernelError::Pin { cpu, source: io::Error::from(io::ErrorKind::InvalidInput) });
    }
    // Our own mask and not libc's cpu_set_t, which ends at CPU 1023.
    let bits = u64::BITS as usize;
    let mut mask = vec![0_u64; (cpu.0 as usize / bits) + 1];
    mask[cpu.0 as usize / bits] = 1 << (cpu.0 as usize % bits);
    // Safety: the kernel reads `mask.len() * 8` bytes from a live allocation of that size; thread 0 is ourselves.
    let done = unsafe { libc::sched_setaffinity(0, mask.len() * 8, mask.as_ptr().cast()) };
    if done == 0 {
        Ok(())
    } else {
        Err(KernelError::Pin { cpu, source: io::Error::last_os_error() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_cpu_is_an_error() {
        for cpu in [CpuId(MAX_CPU), CpuId(u32::MAX)] {
            // In a thread of its own: a success would bind this one.
            let outcome =
                std::thread::spawn(move || pin_current_thread(cpu)).join().expect("no panic");
            assert!(outcome.expect_err("no such CPU").to_string().contains(&cpu.to_string()));
        }
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn tsc_goes_forward_and_cpuid_names_a_vendor() {
        let first = read_tsc();
        assert!(first > Some(0) && read_tsc() > first);
        let [_, ebx, ..] = cpuid(0, 0).expect("x86-64 has CPUID");
        assert_ne!(ebx, 0, "vendor string");
    }
}
