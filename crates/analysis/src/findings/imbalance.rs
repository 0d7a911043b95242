//! `load-imbalance`: threads that live side by side and compute for very different times.
//!
//! Judged are all threads of the busiest one's process but the first, unless that computes as well. Fires when they
//! live together and the most busy one computed longer than their mean. Gain: the difference, if work were even.

use facts::{Evidence, Metric};

use super::{Draft, Figures, Proof, ThreadTime, Where, high, low};

/// The first thread computes as well if it has this part of the most busy one's time.
const WORKS: f64 = 0.2;
/// Threads that live together share this part of the longest life.
const TOGETHER: f64 = 0.5;

pub(super) fn judge(figures: &Figures) -> Result<Vec<Draft>, String> {
    let threads = figures.threads.as_ref().map_err(String::clone)?;
    let value = |thread: &ThreadTime| thread.cpu.value.unwrap_or(0.0);
    let Some(busiest) = threads.iter().max_by(|a, b| value(a).total_cmp(&value(b))) else {
        return Ok(Vec::new());
    };
    let most = value(busiest);
    let workers: Vec<&ThreadTime> = threads
        .iter()
        .filter(|thread| thread.pid == busiest.pid)
        .filter(|thread| !thread.main || value(thread) >= WORKS * most)
        .collect();
    let fits = figures.usable_cpus.is_some_and(|cpus| workers.len() as f64 <= cpus);
    if workers.len() < 2 || !fits || !together(&workers) {
        return Ok(Vec::new());
    }
    let count = workers.len() as f64;
    let mean = |part: fn(&Metric) -> f64| {
        workers.iter().map(|thread| part(&thread.cpu)).sum::<f64>() / count
    };
    let (middle, low_mean, high_mean) =
        (mean(|metric| metric.value.unwrap_or(0.0)), mean(low), mean(high));
    let interval = (
        (low(&busiest.cpu) - high_mean).max(0.0),
        (high(&busiest.cpu) - low_mean).min(figures.elapsed),
    );
    let difference = value(busiest) - middle;
    let gain =
        Metric::with_interval(Evidence::Estimated, difference, "s", interval, busiest.cpu.samples);
    let mut evidence: Vec<Proof> = Vec::new();
    for thread in workers.iter().take(8) {
        evidence.push(Proof::new(format!("CPU time of {}", thread.label), &thread.cpu));
    }
    Ok(vec![Draft {
        title: format!("{} of {count:.0} threads has most of the work", busiest.label),
        evidence,
        place: Where::default(),
        advice: "Give the threads equal parts of the work, not of the data, or hand it out in small pieces: \
                 schedule(dynamic) or guided, a queue, work stealing."
            .to_owned(),
        gain,
        next: ["report", "timeline", "-g", "thread"].map(str::to_owned).to_vec(),
    }])
}

/// Whether there was a time in which all lived, as long as a good part of the longest life.
fn together(workers: &[&ThreadTime]) -> bool {
    let from = workers.iter().map(|thread| thread.life.0).fold(f64::MIN, f64::max);
    let longest = workers.iter().map(|thread| thread.life.1 - thread.life.0).fold(0.0, f64::max);
    // One that is done earlier for want of work lived beside the others, if it began with them.
    let start = workers.iter().map(|thread| thread.life.0).fold(f64::MAX, f64::min);
    from - start <= (1.0 - TOGETHER) * longest
}
