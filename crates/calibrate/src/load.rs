//! Was the machine ours while we measured? A busy machine gives low figures, and the reader must know.

use std::time::Instant;

use crate::live;

/// Share of one CPU's time: more than this taken by others is worth a note.
const WORTH_A_NOTE: f64 = 0.10;

/// Seconds of CPU time since some point in the past.
#[derive(Clone, Copy, PartialEq, Debug)]
struct CpuTimes {
    /// Time of all programs and the kernel.
    busy: f64,
    /// Taken by the hypervisor for other virtual machines.
    stolen: f64,
    /// Time of this process.
    own: f64,
}

/// The state at the beginning.
pub(crate) struct Load {
    started: Instant,
    before: Option<CpuTimes>,
}

impl Load {
    /// Starts watching.
    pub fn begin() -> Load {
        Load { started: Instant::now(), before: cpu_times() }
    }

    /// Sentences for the notes, if others took a part of the `cpus` that we measured on.
    pub fn end(&self, cpus: usize) -> Vec<String> {
        let (Some(before), Some(after)) = (self.before, cpu_times()) else { return Vec::new() };
        let seconds = self.started.elapsed().as_secs_f64().max(1e-3);
        let others = (after.busy - before.busy - (after.own - before.own)).max(0.0) / seconds;
        let stolen = (after.stolen - before.stolen).max(0.0) / seconds;
        let mut notes = Vec::new();
        if others > WORTH_A_NOTE {
            notes.push(format!(
                "other programs used {others:.1} CPUs on average while we measured on {cpus}: rates may be too low and latencies too high; measure again when the machine is idle"
            ));
        }
        if stolen > WORTH_A_NOTE {
            notes.push(format!(
                "the hypervisor gave {stolen:.1} CPUs on average to other virtual machines while we measured on {cpus}"
            ));
        }
        notes
    }
}

/// Ticks per second of `/proc/stat` and `/proc/self/stat`: USER_HZ, 100 on every architecture that Linux runs on
/// today (man 5 proc).
const TICKS: f64 = 100.0;

fn cpu_times() -> Option<CpuTimes> {
    parse(&live::read("/proc/stat")?, &live::read("/proc/self/stat")?)
}

/// From the first line of `/proc/stat` (user nice system idle iowait irq softirq steal ...) and fields 14 and 15
/// of `/proc/self/stat`, which follow the command name in parentheses.
fn parse(stat: &str, own: &str) -> Option<CpuTimes> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<f64> = line.split_whitespace().map_while(|field| field.parse().ok()).collect();
    let sum =
        |indices: &[usize]| -> Option<f64> { indices.iter().map(|index| ticks.get(*index)).sum() };
    let (_, fields) = own.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let (user, system): (f64, f64) = (fields.get(11)?.parse().ok()?, fields.get(12)?.parse().ok()?);
    Some(CpuTimes {
        busy: sum(&[0, 1, 2, 5, 6])? / TICKS,
        stolen: ticks.get(7).copied().unwrap_or(0.0) / TICKS,
        own: (user + system) / TICKS,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_taken_from_the_right_columns() {
        let stat = "cpu  100 20 30 4000 50 6 7 800 0 0\ncpu0 1 2 3\n";
        let own = "12 (a) b) c) S 1 12 12 0 -1 4194304 100 0 0 0 150 50 0 0 20 0 1 0 1 1 1";
        assert_eq!(parse(stat, own), Some(CpuTimes { busy: 1.63, stolen: 8.0, own: 2.0 }));
        for (stat, own) in [("", own), ("cpu 1 2", own), (stat, ""), (stat, "1 (x) S")] {
            assert_eq!(parse(stat, own), None);
        }
    }
}
