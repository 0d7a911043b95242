//! Levels that are polled: memory of the program, how many of its threads want a CPU, and the load of the machine.
//!
//! What not: sums since the start of the recording (`first_checks`, `proc_status`).
//!
//! Cost: one `statm` per process and round (some microseconds), and the states of up to 16 threads (8 µs each);
//! `/proc/stat` once a second, because the kernel adds up all interrupts for it. `smaps_rollup` walks the page tables
//! of a process (50 to 240 ns per page): it is read at 0.5 s and then each time the age has doubled, but for at most a
//! thousandth of the time, and never for a process above 8 GiB.

use std::path::Path;

use base::{Nanos, Pid, Tid};
use facts::{Fact, Gauge, GaugeKind, SinkError};
use tracee::status::from_state_on;

use crate::recorder::Recorder;

/// The cost at the head is affordable at these rates; a first `smaps_rollup` at 0.5 s also serves short programs.
const INTERVAL: Nanos = Nanos(100_000_000);
const MACHINE_INTERVAL: Nanos = Nanos(1_000_000_000);
const FIRST_ROLLUP: Nanos = Nanos(500_000_000);
/// Largest process whose page tables are walked: 2 million base pages, a tenth of a second.
const LARGEST_ROLLUP: u64 = 8 << 30;
/// Most processes polled; of a program with more, the first ones.
const MOST_PROCESSES: usize = 64;
/// Most threads of a process asked for their state; of more, they represent the others.
const MOST_THREADS: usize = 16;
/// `/proc/stat` counts in units of USER_HZ, which is 100 on every Linux (`include/asm-generic/param.h`).
const NANOS_PER_TICK: u64 = 10_000_000;

/// Polls levels at fixed times.
#[derive(Default)]
pub struct Gauges {
    next: Nanos,
    next_machine: Nanos,
    next_rollup: Option<Nanos>,
    rounds: usize,
    stolen_before: Option<u64>,
    busy_before: Option<u64>,
}

impl Gauges {
    /// Reads what is due at `now`.
    pub fn poll(&mut self, now: Nanos, recorder: &mut Recorder<'_>) -> Result<(), SinkError> {
        if now < self.next {
            return Ok(());
        }
        self.next = now + INTERVAL;
        self.rounds += 1;
        let processes: Vec<Pid> = recorder.processes().take(MOST_PROCESSES).collect();
        let with_rollup = now >= *self.next_rollup.get_or_insert(FIRST_ROLLUP);
        let began = sys::process::monotonic();
        for pid in processes {
            let Some(resident) = resident_bytes(pid) else { continue };
            recorder.push(gauge(now, pid, GaugeKind::ResidentBytes, resident))?;
            let threads = recorder.threads_of(pid);
            if let Some(runnable) = runnable_threads(pid, &threads, self.rounds) {
                recorder.push(gauge(now, pid, GaugeKind::RunnableThreads, runnable))?;
            }
            if !with_rollup || resident > LARGEST_ROLLUP {
                continue;
            }
            if let Some((huge, anonymous)) = huge_page_bytes(pid) {
                recorder.push(gauge(now, pid, GaugeKind::HugePageBytes, huge))?;
                recorder.push(gauge(now, pid, GaugeKind::AnonymousBytes, anonymous))?;
            }
        }
        if with_rollup {
            let took = sys::process::monotonic() - began;
            self.next_rollup = Some(now + now.max(Nanos(took.0.saturating_mul(1000))));
        }
        if now >= self.next_machine {
            self.next_machine = now + MACHINE_INTERVAL;
            self.machine(now, recorder)?;
        }
        Ok(())
    }

    /// Reads the machine's counts a last time: a short recording needs an end to subtract the start from.
    pub fn finish(&mut self, now: Nanos, recorder: &mut Recorder<'_>) -> Result<(), SinkError> {
        self.machine(now, recorder)
    }

    fn machine(&mut self, now: Nanos, recorder: &mut Recorder<'_>) -> Result<(), SinkError> {
        let Some((busy, stolen)) =
            std::fs::read_to_string("/proc/stat").ok().as_deref().and_then(cpu_times)
        else {
            return Ok(());
        };
        // The kernel's totals sometimes step back by a tick.
        let stolen_since = stolen.saturating_sub(*self.stolen_before.get_or_insert(stolen));
        let busy_since = busy.saturating_sub(*self.busy_before.get_or_insert(busy));
        recorder.push(gauge(now, Pid(0), GaugeKind::StolenTime, stolen_since))?;
        recorder.push(gauge(now, Pid(0), GaugeKind::MachineCpuTime, busy_since))
    }
}

fn gauge(time: Nanos, pid: Pid, kind: GaugeKind, value: u64) -> Fact {
    Fact::Gauge(Gauge { time, pid, kind, value })
}

fn resident_bytes(pid: Pid) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    let pages: u64 = text.split(' ').nth(1)?.parse().ok()?;
    pages.checked_mul(sys::process::page_size() as u64)
}

/// Number of threads that run or wait for a CPU. Of many threads, each round asks others.
fn runnable_threads(pid: Pid, threads: &[Tid], round: usize) -> Option<u64> {
    let step = threads.len().div_ceil(MOST_THREADS).max(1);
    let asked = threads.iter().skip(round % step).step_by(step);
    let stat = |tid| std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat")).ok();
    let states = asked.filter_map(|tid| is_runnable(&stat(tid)?));
    let (mut asked, mut runnable) = (0, 0);
    for state in states {
        asked += 1;
        runnable += u64::from(state);
    }
    let all = threads.len() as u64;
    (asked > 0).then(|| (runnable * all + asked / 2) / asked)
}

/// `None` for a thread that has ended. A thread that is stopped by us (t) wanted to run.
fn is_runnable(stat: &str) -> Option<bool> {
    match from_state_on(stat)?.chars().next()? {
        'R' | 't' => Some(true),
        'Z' | 'X' => None,
        _ => Some(false),
    }
}

/// (huge, anonymous) bytes from `smaps_rollup`.
fn huge_page_bytes(pid: Pid) -> Option<(u64, u64)> {
    parse_rollup(&std::fs::read_to_string(Path::new(&format!("/proc/{pid}/smaps_rollup"))).ok()?)
}

fn parse_rollup(text: &str) -> Option<(u64, u64)> {
    let field = |name: &str| -> Option<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
    };
    let (transparent, private, shared) =
        (field("AnonHugePages:")?, field("Private_Hugetlb:")?, field("Shared_Hugetlb:")?);
    let hugetlb = private.checked_add(shared)?;
    // hugetlb memory is not part of `Anonymous:`.
    Some((transparent.checked_add(hugetlb)?, field("Anonymous:")?.checked_add(hugetlb)?))
}

/// (busy, stolen) nanoseconds of all CPUs from `/proc/stat`'s first line:
/// `cpu user nice system idle iowait irq softirq steal guest guest_nice`.
fn cpu_times(stat: &str) -> Option<(u64, u64)> {
    let fields: Vec<u64> = stat
        .lines()
        .next()?
        .strip_prefix("cpu ")?
        .split_whitespace()
        .map_while(|field| field.parse().ok())
        .collect();
    let [user, nice, system, _idle, _waiting, interrupts, soft_interrupts, stolen] =
        *fields.get(..8)?
    else {
        return None;
    };
    let busy = [user, nice, system, interrupts, soft_interrupts]
        .into_iter()
        .try_fold(0u64, u64::checked_add)?;
    Some((busy.checked_mul(NANOS_PER_TICK)?, stolen.checked_mul(NANOS_PER_TICK)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_stat_is_added_up() {
        assert_eq!(
            cpu_times("cpu  10 1 5 1000 7 2 3 4 0 0\ncpu0 ..."),
            Some((210_000_000, 40_000_000))
        );
        assert_eq!(cpu_times("cpu 1 2 3"), None);
        assert_eq!(cpu_times(""), None);
    }

    #[test]
    fn who_wants_a_cpu() {
        assert_eq!(is_runnable("7 (a) S) R 1 7"), Some(true));
        assert_eq!(is_runnable("7 (a) t 1 7"), Some(true));
        assert_eq!(is_runnable("7 (R) S 1 7"), Some(false));
        assert_eq!(is_runnable("7 (R) Z 1 7"), None);
        assert_eq!(is_runnable("7"), None);
        // This thread runs; others of the test may, too.
        let own = Pid(std::process::id().cast_signed());
        let own = runnable_threads(own, &tracee::threads_of(own).unwrap(), 0);
        assert!(own.is_some_and(|runnable| runnable >= 1), "{own:?}");
    }

    #[test]
    fn huge_pages_of_both_kinds_count() {
        let text = "Rss: 9 kB\nAnonymous:   300 kB\nAnonHugePages:  200 kB\nShared_Hugetlb: 0 kB\nPrivate_Hugetlb: 100 kB\n";
        assert_eq!(parse_rollup(text), Some((300 * 1024, 400 * 1024)));
        assert_eq!(parse_rollup("AnonHugePages: x kB"), None);
    }
}
