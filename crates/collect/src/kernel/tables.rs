//! The tables that programs in the kernel share with us, and the numbers in their keys.
//!
//! What not: the programs (`programs`).

use sys::bpf::Map;

/// The tables that programs share.
#[derive(Debug)]
pub struct Tables {
    /// [`KEY_BYTES`] to [`VALUE_BYTES`].
    pub entries: Map,
    /// Slots of threads, then one per CPU for its idle thread.
    pub slots: Map,
    /// Number of slots of threads; a power of two.
    pub slot_count: u32,
    /// State of CPUs.
    pub cpus: Map,
    /// When a thread, named by its address in the kernel, became ready to run.
    pub ready: Map,
    /// One word: not 0 while page faults are counted at their start instead of timed.
    pub mode: Map,
    /// One word: entries without room.
    pub lost: Map,
}

/// tid, pid, cause, CPU: four `u32`.
pub const KEY_BYTES: usize = 16;
/// Count, own nanoseconds, nanoseconds waited: three `u64`.
pub const VALUE_BYTES: usize = 24;
/// Bytes of a slot.
pub const SLOT_BYTES: usize = 104;
/// Bytes of a CPU's state.
pub const CPU_BYTES: usize = 64;

/// The highest byte of a cause; the rest is a number within it.
pub mod cause {
    pub const FAULT: u32 = 1;
    pub const SYSTEM_CALL: u32 = 2;
    pub const INTERRUPT: u32 = 3;
    pub const SOFT_INTERRUPT: u32 = 4;
    pub const SWITCH: u32 = 5;
    pub const RUN_QUEUE: u32 = 6;
    pub const TLB_FLUSH: u32 = 7;

    /// Number of a fault that the kernel itself took, for example while it filled a program's buffer.
    pub const IN_KERNEL: u32 = 1;
    /// Number of an involuntary switch.
    pub const PREEMPTED: u32 = 1;
    /// Numbers from here on are vectors of the processor, not interrupt lines.
    pub const VECTOR: u32 = 1 << 20;
}
