//! The sweeps of one `fathom scale`: each way to lay threads on CPUs, and earlier sweeps to compare with.
//!
//! What not: running them; the order of CPUs (`analysis::placement`).

use std::path::Path;

use analysis::placement::{CpuOrder, cores as cores_of, cpu_order};
use analysis::scaling::Point;
use base::CpuId;
use facts::host::Host;
use report::scale::{ScalePoint, Sweep};
use serde_json::Value;
use sys::process::Affinity;

use crate::arguments::Pin;
use crate::exit::{DAMAGED, Failure, USAGE};

/// A way to lay threads on CPUs, with what was measured.
pub struct Way {
    /// Which.
    pub pin: Pin,
    cpus: Vec<u32>,
    /// By number of threads.
    pub points: Vec<ScalePoint>,
}

impl Way {
    pub fn new(pin: Pin, host: &Host, points: Vec<ScalePoint>) -> Way {
        let cpus = order(pin).map_or(Vec::new(), |order| cpu_order(host, order));
        Way { pin, cpus, points }
    }

    /// What so many threads may run on, and the variables that make OpenMP give each its own CPU. Other threads than OpenMP's
    /// are moved by the kernel, but only among these CPUs.
    pub fn pinned(&self, threads: u32) -> (Option<Affinity>, Vec<(&'static str, String)>) {
        let cpus = &self.cpus[..self.cpus.len().min(threads as usize)];
        if cpus.is_empty() {
            return (None, Vec::new());
        }
        let places = cpus.iter().map(|cpu| format!("{{{cpu}}}")).collect::<Vec<_>>().join(",");
        let cpus: Vec<CpuId> = cpus.iter().copied().map(CpuId).collect();
        let variables = [("OMP_PLACES", places), ("OMP_PROC_BIND", "close".to_owned())];
        (Some(Affinity::of(&cpus)), variables.into())
    }

    /// Next to the first way.
    pub fn as_other(&self, result: &str) -> Sweep {
        let name = match name(self.pin) {
            Some(pin) => format!("{result} --pin {pin}"),
            None => format!("{result} not pinned"),
        };
        let points = self.points.iter();
        let points = points.map(|p| Point { threads: p.threads, seconds: p.seconds.clone() });
        Sweep { name, points: points.collect() }
    }
}

fn order(pin: Pin) -> Option<CpuOrder> {
    match pin {
        Pin::None => None,
        Pin::Compact => Some(CpuOrder::Compact),
        Pin::Scatter => Some(CpuOrder::Scatter),
        Pin::Cores => Some(CpuOrder::Cores),
    }
}

/// As the command line has it; `None` for the kernel's choice.
pub fn name(pin: Pin) -> Option<&'static str> {
    match pin {
        Pin::None => None,
        Pin::Compact => Some("compact"),
        Pin::Scatter => Some("scatter"),
        Pin::Cores => Some("cores"),
    }
}

/// Cores that we may use, and their hardware threads; `None` where the system does not say.
pub fn cores(host: &Host) -> Option<(u32, u32)> {
    let known = host.cpu_groups.iter().any(|group| group.part == facts::host::CpuPart::Core);
    let cores = cores_of(host);
    let cpus: usize = cores.iter().map(Vec::len).sum();
    known.then_some((u32::try_from(cores.len()).ok()?, u32::try_from(cpus).ok()?))
}

/// The times of an earlier sweep.
pub fn read(directory: &Path) -> Result<Sweep, Failure> {
    let file = directory.join("scale.json");
    let shown = file.display().to_string();
    let text = std::fs::read_to_string(&file).map_err(|error| {
        let what = format!("cannot read {shown}");
        Failure::new(USAGE, anyhow::Error::new(error).context(what))
            .hint("--overlay takes a directory that `fathom scale` made")
    })?;
    let damaged = || Failure::new(DAMAGED, anyhow::anyhow!("{shown} has no times of a sweep"));
    let found: Value = serde_json::from_str(&text).map_err(|_| damaged())?;
    let runs = found["runs"].as_array().ok_or_else(damaged)?;
    let point = |run: &Value| {
        let seconds = run["seconds"].as_array()?.iter().map(Value::as_f64);
        let seconds: Vec<f64> = seconds.collect::<Option<_>>()?;
        let right = seconds.iter().all(|one| one.is_finite() && *one > 0.0) && !seconds.is_empty();
        let threads =
            u32::try_from(run["threads"].as_u64()?).ok().filter(|threads| *threads > 0)?;
        right.then_some(Point { threads, seconds })
    };
    let points: Vec<Point> = runs.iter().map(point).collect::<Option<_>>().ok_or_else(damaged)?;
    if points.is_empty() {
        return Err(damaged());
    }
    let pin = found["pin"].as_str().map_or(String::new(), |pin| format!(" --pin {pin}"));
    Ok(Sweep { name: format!("{}{pin}", super::super::shown_name(directory)), points })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_threads_get_so_many_cpus_and_places() {
        let host = Host { allowed_cpus: vec![0, 2, 3], logical_cpus: 4, ..Host::default() };
        let way = Way::new(Pin::Cores, &host, Vec::new());
        let (affinity, variables) = way.pinned(2);
        assert_eq!(affinity, Some(Affinity::of(&[CpuId(0), CpuId(2)])));
        assert_eq!(variables[0], ("OMP_PLACES", "{0},{2}".to_owned()));
        // More threads than CPUs share all of them.
        assert_eq!(way.pinned(9).1[0].1, "{0},{2},{3}");
        assert_eq!(Way::new(Pin::None, &host, Vec::new()).pinned(2), (None, Vec::new()));
    }
}
