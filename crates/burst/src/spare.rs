//! Whether a CPU is free for our own work.
//!
//! What for: what our CPU time costs a program depends on whether it would have had that CPU. What not: how often bursts may
//! be (`budget`).
//!
//! Source: `/proc/stat`, first line (proc_stat(5)): ticks in which CPUs were idle, with those in which some task waited for
//! I/O, of all ticks.

use std::time::{Duration, Instant};

/// Ticks of all CPUs between two looks, at least: with fewer, one tick is several percent.
const TICKS: u64 = 40;
/// A CPU is free where so much of one was idle: the program of one thread leaves the other of two, but for what we use.
const FREE: f64 = 0.75;

/// Between two looks, at least: a tick is 1 to 10 ms; and later: a look takes some 75 us.
const PERIOD: Duration = Duration::from_millis(100);
const LATER_PERIOD: Duration = Duration::from_millis(500);
/// Of the time since the first look.
const PART: u32 = 8;

/// Looks at the machine now and then.
pub struct Spare {
    began: Instant,
    looked: Option<Instant>,
    /// Idle ticks and all.
    last: Option<(u64, u64)>,
    is_free: bool,
}

impl Spare {
    /// Nothing is free until it was seen to be.
    pub fn new() -> Spare {
        Spare { began: Instant::now(), looked: None, last: None, is_free: false }
    }

    /// Whether one was free lately.
    pub fn look(&mut self) -> bool {
        let period = (self.began.elapsed() / PART).clamp(PERIOD, LATER_PERIOD);
        if self.looked.is_none_or(|looked| looked.elapsed() >= period)
            && let Ok(text) = std::fs::read_to_string("/proc/stat")
        {
            self.looked = Some(Instant::now());
            self.note(&text);
        }
        self.is_free
    }

    fn note(&mut self, text: &str) {
        let cpus = text.lines().filter(|line| line.starts_with("cpu")).count().saturating_sub(1);
        let Some((idle, all)) = ticks(text) else {
            self.is_free = false;
            return;
        };
        let Some(last) = self.last else {
            self.last = Some((idle, all));
            return;
        };
        let passed = all.saturating_sub(last.1);
        if passed >= TICKS {
            let idle_cpus = idle.saturating_sub(last.0) as f64 / passed as f64 * cpus as f64;
            self.is_free = idle_cpus >= FREE;
            self.last = Some((idle, all));
        }
    }
}

/// Idle ones, and all. The last two fields, of guests, are in the first two already.
fn ticks(text: &str) -> Option<(u64, u64)> {
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    let fields: Vec<u64> =
        line.split_whitespace().take(8).map_while(|field| field.parse().ok()).collect();
    let all = fields.iter().try_fold(0u64, |sum, field| sum.checked_add(*field))?;
    Some((fields.get(3)?.checked_add(*fields.get(4)?)?, all))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(busy: u64, idle: u64) -> String {
        format!("cpu  {busy} 0 0 {idle} 0 0 0 0 0 0\ncpu0 1 2 3\ncpu1 1 2 3\nintr 5\n")
    }

    #[test]
    fn a_cpu_is_free_where_most_of_one_was_idle() {
        let mut spare = Spare::new();
        spare.note(&stat(1000, 1000));
        assert!(!spare.is_free);
        // Too soon after it to tell.
        spare.note(&stat(1005, 1015));
        assert!(!spare.is_free);
        spare.note(&stat(1050, 1048));
        assert!(spare.is_free);
        spare.note(&stat(1130, 1068));
        assert!(!spare.is_free);
        spare.note("nonsense");
        spare.note("cpu  1 2\n");
        assert!(!spare.is_free);
    }
}
