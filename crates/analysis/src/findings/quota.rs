//! `cpu-quota`: threads were stopped because the control group had used up its CPU time.
//!
//! Gain: the counted time over the threads that would compute without a quota: each of them was stopped on a CPU of its own. It
//! leaves at most the time in which all of them run. At least half of the time is taken to be the program's, because other
//! programs may be in its group.

use super::gain::stated;
use super::{Draft, Figures, NamedLocation, NotJudged, Proof, at_least_half, words};

/// A thread computes if it has this part of the most busy one's CPU time.
const WORKS: f64 = 0.3;

pub(super) fn judge(figures: &Figures) -> Result<Vec<Draft>, NotJudged> {
    let Some(quota) = figures.quota else { return Ok(Vec::new()) };
    let throttled = &figures.system.throttled;
    let Some(seconds) = throttled.value else {
        return Err(throttled.note.clone().unwrap_or_default().into());
    };
    let threads = computing(figures);
    let ran = figures.cpu_time.value.unwrap_or(0.0) / threads;
    let gain = (seconds / threads).min((figures.elapsed - ran).max(0.0));
    Ok(vec![Draft {
        title: format!("The quota of {quota:.1} CPUs stopped threads for {seconds:.1} s in total"),
        evidence: vec![
            Proof::new("stopped by the quota, summed over CPUs", throttled),
            Proof::new("CPU time", &figures.cpu_time),
        ],
        place: NamedLocation::default(),
        advice: format!(
            "Ask for more CPUs (`cpu.max` of its control group, `--cpus` of a container), or start no more than \
             {:.0} threads: more threads only use up the quota sooner.",
            quota.ceil()
        ),
        gain: stated(figures, at_least_half(gain, 1)),
        next: words("report threads"),
    }])
}

/// Threads that compute, at least 1.
fn computing(figures: &Figures) -> f64 {
    let times: Vec<f64> =
        figures.threads.iter().flatten().map(|thread| thread.cpu.value.unwrap_or(0.0)).collect();
    let most = times.iter().copied().fold(0.0, f64::max);
    times.iter().filter(|time| **time >= WORKS * most).count().max(1) as f64
}
