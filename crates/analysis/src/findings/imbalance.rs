//! `load-imbalance`: threads that live at the same time, do the same work, and compute for very different times.
//!
//! The rule looks at all threads of the busiest one's process that spend their time in the same functions. A thread that does
//! something else, or sleeps, has no part of the work. The first thread of the process counts only if it computes as well.
//! Fires when they live together and the busiest one computed longer than their mean. Gain: the difference. Of threads that
//! are started anew for each step: the same per step, summed; the last thread of a step counts as the busiest. Time in which
//! other programs or locks may have kept the others from computing counts as computed. Time before the others existed does not
//! count.

use estimate::Estimate;
use facts::{Evidence, Metric};

use super::gain::{Gain, measured};
use super::{Draft, Figures, NotJudged, Proof, Rounds, ThreadTime, words};
use crate::figure::Figure;

/// The first thread computes as well if it has this part of the most busy one's time.
const WORKS: f64 = 0.2;
/// Threads that live together share this part of the longest life.
const TOGETHER: f64 = 0.5;
/// What to do.
const ADVICE: &str = "Give the threads equal parts of the work rather than of the data, or distribute it in small \
                pieces: schedule(dynamic) or guided, a queue, work stealing.";
/// What would decide it.
const UNEVEN: &str = "the computing time of each thread is not known well enough: run it for longer, while nothing \
                else runs";
/// Where to look.
const NEXT: &str = "report timeline -g thread";

pub(super) fn judge(figures: &Figures) -> Result<Vec<Draft>, NotJudged> {
    let threads = figures.threads.as_ref().map_err(NotJudged::clone)?;
    let mut drafts: Vec<Draft> =
        figures.rounds.iter().filter_map(|rounds| of_rounds(figures, rounds)).collect();
    if drafts.is_empty() {
        drafts.extend(of_all(figures, threads));
    }
    Ok(drafts)
}

/// Threads that live at the same time all along.
fn of_all(figures: &Figures, threads: &[ThreadTime]) -> Option<Draft> {
    let of = |cpu: &Metric| cpu.value.unwrap_or(0.0);
    let value = |thread: &ThreadTime| of(&thread.cpu);
    let busiest = threads.iter().max_by(|a, b| value(a).total_cmp(&value(b)))?;
    let most = value(busiest);
    let workers: Vec<&ThreadTime> = threads
        .iter()
        .filter(|thread| thread.pid == busiest.pid && thread.alike)
        .filter(|thread| !thread.main || value(thread) >= WORKS * most)
        .collect();
    let fits = figures.usable_cpus.is_some_and(|cpus| workers.len() as f64 <= cpus);
    if workers.len() < 2 || !fits || !together(&workers) {
        return None;
    }
    let count = workers.len() as f64;
    let all_there = workers.iter().map(|thread| thread.life.0).fold(f64::MIN, f64::max);
    let times: Vec<(&ThreadTime, Metric)> =
        workers.iter().map(|thread| (*thread, since(thread, all_there))).collect();
    let (busiest, most) = times.iter().max_by(|a, b| of(&a.1).total_cmp(&of(&b.1)))?;
    let mut others = times.iter().filter(|(thread, _)| !std::ptr::eq(*thread, *busiest));
    let rest = others.clone().map(|(_, cpu)| of(cpu)).sum::<f64>();
    let kept = figures.displaced + locked(figures, (count - 1.0) * of(most) - rest);
    let others = others.try_fold((Estimate::exactly(0.0), 1), |(sum, number), (_, cpu)| {
        Some((sum + &Figure::from(cpu.clone()).drawn(number)?, number + 1))
    });
    let gain = beyond_mean(figures, most, &others?.0, count, kept)?;
    let mut evidence: Vec<Proof> = Vec::new();
    for (thread, cpu) in times.iter().take(8) {
        evidence.push(Proof::new(format!("CPU time of {}", thread.label), cpu));
    }
    Some(Draft {
        title: format!("{} of {count:.0} threads has most of the work", busiest.label),
        evidence,
        place: busiest.place.clone(),
        advice: ADVICE.to_owned(),
        gain,
        next: words(NEXT),
    })
}

/// The CPU time of a thread from this second on: before, it computed all the time, or at least as much of it as of its life.
fn since(thread: &ThreadTime, second: f64) -> Metric {
    let before = (second - thread.life.0).max(0.0);
    let cpu = &thread.cpu;
    let life = (thread.life.1 - thread.life.0).max(f64::MIN_POSITIVE);
    let at_least = before * (cpu.value.unwrap_or(0.0) / life).min(1.0);
    let less = |time: Option<f64>, before: f64| time.map(|time| (time - before).max(0.0));
    Metric {
        value: less(cpu.value, before),
        low: less(cpu.low, before),
        high: less(cpu.high, at_least),
        ..cpu.clone()
    }
}

/// Part of the seconds by which threads computed less than the busiest one in which they may have waited for locks: no more
/// than barriers do not explain. 0 where switches were not recorded.
fn locked(figures: &Figures, less: f64) -> f64 {
    let Ok(waits) = &figures.waits else { return 0.0 };
    let locks: f64 = waits.locks.iter().map(|lock| lock.time.value.unwrap_or(0.0)).sum();
    locks.min((less - waits.barriers.time.value.unwrap_or(0.0)).max(0.0))
}

/// Threads that are started anew for each step.
fn of_rounds(figures: &Figures, found: &Rounds) -> Option<Draft> {
    let count = found.threads as f64;
    if figures.usable_cpus.is_none_or(|cpus| count > cpus) {
        return None;
    }
    let (last, others) = (&found.last, &found.others);
    let (longest, rest) = (last.value?, others.value?);
    let drawn = Figure::from(others.clone()).drawn(1)?;
    let gain = beyond_mean(figures, last, &drawn, count, figures.displaced)?;
    let times = longest / ((longest + rest) / count).max(1e-9);
    Some(Draft {
        title: format!(
            "In {} rounds of {count:.0} threads, one thread has {times:.1} times the mean work",
            found.rounds
        ),
        evidence: vec![
            Proof::new("CPU time of the last thread of each round", last),
            Proof::new("CPU time of the others", others),
        ],
        place: found.place.clone(),
        advice: ADVICE.to_owned(),
        gain,
        next: words(NEXT),
    })
}

/// CPU time of the longest beyond the mean of all `count`, of which some may have been without a CPU for `kept` seconds.
fn beyond_mean(
    figures: &Figures,
    longest: &Metric,
    others: &Estimate,
    count: f64,
    kept: f64,
) -> Option<Gain> {
    let most = Figure::from(longest.clone()).drawn(0)?;
    let beyond = Estimate::of([&most, others], |[most, others]| most - (most + others) / count);
    let beyond = beyond.map(|seconds| seconds.clamp(0.0, figures.elapsed));
    let sure = beyond.clone().map(|seconds| (seconds - kept / count).max(0.0));
    let interval = (sure.interval().0, beyond.interval().1);
    let (value, samples) = (beyond.point(), longest.samples);
    let metric = Metric::with_interval(Evidence::Estimated, value, "s", interval, samples);
    Some(measured(figures, Figure::new(metric, sure).sharper_by(UNEVEN)))
}

/// Whether there was a time in which all lived, as long as a good part of the longest life.
fn together(workers: &[&ThreadTime]) -> bool {
    let from = workers.iter().map(|thread| thread.life.0).fold(f64::MIN, f64::max);
    let longest = workers.iter().map(|thread| thread.life.1 - thread.life.0).fold(0.0, f64::max);
    // A thread that ends earlier for want of work lived with the others, if it began with them.
    let start = workers.iter().map(|thread| thread.life.0).fold(f64::MAX, f64::min);
    from - start <= (1.0 - TOGETHER) * longest
}
