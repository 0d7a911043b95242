//! Whether page faults are timed, or come in storms and are only counted.
//!
//! What for: a fault of 3 us takes up to a microsecond longer if programs of ours run at its start and end
//! (touch_pages in a virtual machine of 2 CPUs, AMD Zen 3: 1.25 times as long), and 150 to 200 ns longer if it is
//! only counted at its start. So where a CPU takes very many faults they are counted, and their time is sampled with
//! everything else (`analysis::kernel`). What not: switching (`mod`), the programs (`programs`).

use std::collections::HashMap;

use base::{CpuId, Nanos};
use facts::{KernelCause, KernelEntry};

/// Faults per second on one CPU that are too many to be timed: timing them would take 1 % of its time.
const STORM: f64 = 12_500.0;
/// How much longer a fault takes if it is timed, and if it is counted, as measured.
const TIMED: Nanos = Nanos(800);
const COUNTED: Nanos = Nanos(170);

/// How much longer the faults of an entry took because of the observation.
pub fn cost(entry: &KernelEntry) -> Nanos {
    let each = if entry.own.is_some() { TIMED } else { COUNTED };
    Nanos(entry.count.saturating_mul(each.0))
}

/// The state at the last bin.
#[derive(Debug, Default)]
pub struct Storms {
    counting: bool,
}

impl Storms {
    /// Whether faults are only to be counted.
    pub fn is_counting(&self) -> bool {
        self.counting
    }

    /// Takes the entries of a bin. A storm is over when the rate falls below half of the limit.
    pub fn seen(&mut self, length: Nanos, entries: &[KernelEntry]) {
        let mut by_cpu: HashMap<Option<CpuId>, u64> = HashMap::new();
        for entry in entries.iter().filter(|entry| entry.cause == KernelCause::PageFault) {
            *by_cpu.entry(entry.cpu).or_default() += entry.count;
        }
        let most = by_cpu.values().copied().max().unwrap_or(0) as f64;
        let limit = if self.counting { STORM / 2.0 } else { STORM };
        self.counting = most > limit * length.seconds();
    }
}

#[cfg(test)]
mod tests {
    use base::{Pid, Tid};

    use super::*;

    fn faults(cpu: u32, count: u64) -> KernelEntry {
        KernelEntry {
            time: Nanos(0),
            length: Nanos(100_000_000),
            pid: Pid(1),
            tid: Tid(1),
            cpu: Some(CpuId(cpu)),
            cause: KernelCause::PageFault,
            name: "in program".to_owned(),
            count,
            own: None,
            waited: Nanos(0),
        }
    }

    #[test]
    fn a_storm_is_one_of_a_cpu_and_ends_late() {
        let mut storms = Storms::default();
        let bin = Nanos(100_000_000);
        let mut look = |counts: [u64; 2]| {
            storms.seen(bin, &[faults(0, counts[0]), faults(1, counts[1])]);
            storms.is_counting()
        };
        assert!(!look([1000, 1000]));
        assert!(look([1000, 1300]));
        assert!(look([0, 700]));
        assert!(!look([600, 600]));
    }

    #[test]
    fn what_is_timed_costs_more() {
        let timed = KernelEntry { own: Some(Nanos(1)), ..faults(0, 3) };
        assert_eq!([timed, faults(0, 3)].map(|entry| cost(&entry)), [Nanos(2400), Nanos(510)]);
    }
}
