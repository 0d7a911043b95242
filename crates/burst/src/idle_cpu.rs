//! Whether a CPU is idle, so that our own work can run on it.
//!
//! What for: the cost of our CPU time depends on whether the program would have used that CPU. What not: how often bursts
//! begin (`budget`).
//!
//! Source: `/proc/stat`, first line (proc_stat(5)): ticks in which CPUs were idle, including waiting for I/O, and all
//! ticks.

use std::time::{Duration, Instant};

use tracee::status::ThreadFile;

/// Least number of ticks of all CPUs between two readings: with fewer, one tick is several percent.
const TICKS: u64 = 40;
/// Idle part of one CPU from which a CPU is free. A program of one thread leaves the other of two CPUs idle, except for
/// what we use of it.
const FREE: f64 = 0.75;

/// Least time between two readings: a tick is 1 to 10 ms.
const PERIOD: Duration = Duration::from_millis(100);
/// Most time between two readings, reached later in a run: a reading takes some 75 us.
const LATER_PERIOD: Duration = Duration::from_millis(500);
/// The period between the two limits, as a part of the time since the first reading.
const PART: u32 = 8;

/// Reads the machine's idle time from time to time.
pub struct IdleCpu {
    began: Instant,
    stat: Option<ThreadFile>,
    read_at: Option<Instant>,
    last: Option<Ticks>,
    is_free: bool,
}

/// Ticks of all CPUs since the machine started.
#[derive(Clone, Copy)]
struct Ticks {
    idle: u64,
    all: u64,
}

impl IdleCpu {
    /// No CPU counts as free before a reading shows it.
    pub fn new() -> IdleCpu {
        let stat = ThreadFile::of_cpus();
        IdleCpu { began: Instant::now(), stat, read_at: None, last: None, is_free: false }
    }

    /// Whether a CPU was free at the last reading; takes a new one if it is due.
    pub fn is_free(&mut self) -> bool {
        let period = (self.began.elapsed() / PART).clamp(PERIOD, LATER_PERIOD);
        if self.read_at.is_none_or(|at| at.elapsed() >= period)
            && let Some(text) = self.stat.as_ref().and_then(ThreadFile::read)
        {
            self.read_at = Some(Instant::now());
            self.note(&text);
        }
        self.is_free
    }

    fn note(&mut self, text: &str) {
        let cpus = text.lines().filter(|line| line.starts_with("cpu")).count().saturating_sub(1);
        let Some(now) = ticks(text) else {
            self.is_free = false;
            return;
        };
        let Some(last) = self.last else {
            self.last = Some(now);
            return;
        };
        let passed = now.all.saturating_sub(last.all);
        if passed >= TICKS {
            let idle_cpus = now.idle.saturating_sub(last.idle) as f64 / passed as f64 * cpus as f64;
            self.is_free = idle_cpus >= FREE;
            self.last = Some(now);
        }
    }
}

/// Of the first line. The last two fields, of guests, are already in the first two.
fn ticks(text: &str) -> Option<Ticks> {
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    let fields: Vec<u64> =
        line.split_whitespace().take(8).map_while(|field| field.parse().ok()).collect();
    let all = fields.iter().try_fold(0u64, |sum, field| sum.checked_add(*field))?;
    Some(Ticks { idle: fields.get(3)?.checked_add(*fields.get(4)?)?, all })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(busy: u64, idle: u64) -> String {
        format!("cpu  {busy} 0 0 {idle} 0 0 0 0 0 0\ncpu0 1 2 3\ncpu1 1 2 3\nintr 5\n")
    }

    #[test]
    fn a_cpu_is_free_where_most_of_one_was_idle() {
        let mut idle_cpu = IdleCpu::new();
        idle_cpu.note(&stat(1000, 1000));
        assert!(!idle_cpu.is_free);
        // Too few ticks since the last reading.
        idle_cpu.note(&stat(1005, 1015));
        assert!(!idle_cpu.is_free);
        idle_cpu.note(&stat(1050, 1048));
        assert!(idle_cpu.is_free);
        idle_cpu.note(&stat(1130, 1068));
        assert!(!idle_cpu.is_free);
        idle_cpu.note("nonsense");
        idle_cpu.note("cpu  1 2\n");
        assert!(!idle_cpu.is_free);
    }
}
