//! Names of what programs count by number.
//!
//! What not: system calls (`system_calls`). Sources: `/proc/interrupts` for lines; `include/linux/interrupt.h` for
//! soft interrupts; `arch/x86/include/asm/trace/irq_vectors.h` for vectors; `enum tlb_flush_reason` of
//! `include/linux/mm_types.h`.

use std::collections::HashMap;

use facts::KernelCause;

use super::system_calls::SystemCalls;
use super::tables::cause;

/// Interrupts of an x86 processor with tracepoints `NAME_entry` and `NAME_exit`, in which `_` replaces blanks.
pub const VECTORS: [&str; 11] = [
    "local timer",
    "reschedule",
    "call function",
    "call function single",
    "irq work",
    "x86 platform ipi",
    "error apic",
    "spurious apic",
    "threshold apic",
    "deferred error apic",
    "thermal apic",
];

const SOFT: [&str; 10] =
    ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];

const FLUSHES: [&str; 6] = [
    "task switch",
    "shoot-down received",
    "shoot-down here",
    "shoot-down of a process here",
    "shoot-down sent",
    "wrong CPU",
];

/// Names by cause and number.
#[derive(Debug)]
pub struct Names {
    calls: SystemCalls,
    lines: HashMap<u32, String>,
}

impl Names {
    /// With the current interrupt lines of this machine.
    pub fn new() -> Names {
        let text = std::fs::read_to_string("/proc/interrupts").unwrap_or_default();
        Names { calls: SystemCalls::new(), lines: interrupt_lines(&text) }
    }

    /// The cause of a key and its name; `None` for a kind that no program writes.
    pub fn of(&self, key: u32) -> Option<(KernelCause, String)> {
        let number = key & 0x00ff_ffff;
        let listed = |names: &[&str]| {
            names
                .get(number as usize)
                .map_or_else(|| format!("{number}"), |name| (*name).to_owned())
        };
        Some(match key >> 24 {
            cause::FAULT if number == cause::IN_KERNEL => {
                (KernelCause::PageFault, "in kernel".to_owned())
            }
            cause::FAULT => (KernelCause::PageFault, "in program".to_owned()),
            cause::SYSTEM_CALL => (KernelCause::SystemCall, self.calls.name(number)),
            cause::INTERRUPT => (KernelCause::Interrupt, self.interrupt(number)),
            cause::SOFT_INTERRUPT => (KernelCause::SoftInterrupt, listed(&SOFT)),
            cause::SWITCH if number == cause::PREEMPTED => {
                (KernelCause::Switch, "involuntary".to_owned())
            }
            cause::SWITCH => (KernelCause::Switch, "voluntary".to_owned()),
            cause::RUN_QUEUE => (KernelCause::RunQueue, "ready, no CPU".to_owned()),
            cause::TLB_FLUSH => (KernelCause::TlbFlush, listed(&FLUSHES)),
            _ => return None,
        })
    }

    fn interrupt(&self, number: u32) -> String {
        if number >= cause::VECTOR {
            let vector = VECTORS.get((number - cause::VECTOR) as usize);
            return vector.map_or_else(|| "unknown".to_owned(), |name| (*name).to_owned());
        }
        self.lines.get(&number).cloned().unwrap_or_else(|| format!("line {number}"))
    }
}

/// The numbers of the lines, with their devices.
fn interrupt_lines(text: &str) -> HashMap<u32, String> {
    text.lines()
        .filter_map(|line| {
            let (number, rest) = line.split_once(':')?;
            let number: u32 = number.trim().parse().ok()?;
            // Counts per CPU, then chip and line, then the drivers that listen.
            let words = rest.split_whitespace().skip_while(|word| word.parse::<u64>().is_ok());
            let device = words.skip(2).collect::<Vec<_>>().join(" ");
            let name = if device.is_empty() {
                format!("line {number}")
            } else {
                format!("line {number} {device}")
            };
            Some((number, name))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_the_names_of_their_devices() {
        let text = "           CPU0       CPU1\n 24:          1          0  IO-APIC   5-edge      ACPI:Ged\n \
                    39:      17476          0 PCI-MSIX-0000:00:03.0   2-edge   \nLOC:   1 2   Local timer\n";
        let names = Names { calls: SystemCalls::new(), lines: interrupt_lines(text) };
        let shown = |number| names.of(cause::INTERRUPT << 24 | number).map(|(_, name)| name);
        assert_eq!(shown(24).as_deref(), Some("line 24 ACPI:Ged"));
        assert_eq!(shown(39).as_deref(), Some("line 39"));
        assert_eq!(shown(40).as_deref(), Some("line 40"));
        assert_eq!(shown(cause::VECTOR).as_deref(), Some("local timer"));
        assert_eq!(shown(cause::VECTOR + 99).as_deref(), Some("unknown"));
    }

    #[test]
    fn unused_kinds_have_no_name() {
        let names = Names { calls: SystemCalls::new(), lines: HashMap::new() };
        assert_eq!(names.of(0), None);
        assert_eq!(names.of(u32::MAX), None);
        let fault = names.of(cause::FAULT << 24 | cause::IN_KERNEL);
        assert_eq!(fault, Some((KernelCause::PageFault, "in kernel".to_owned())));
    }
}
