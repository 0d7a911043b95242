//! `oversubscribed`: more threads compute at a time than there are CPUs, or than the quota allows.
//!
//! Fires when the CPUs are busy, or threads queue for them, and clearly more threads than CPUs have a good part of the busiest
//! one's CPU time. For teams that live too briefly for that: when clearly more are runnable at a time (polls of thread states).
//! The cost depends on what threads wait for each other, so no gain is stated. Where other programs kept the threads from
//! running, the rule also asks whether as many would run on a machine of their own: a thread per request piles up for want of
//! CPUs, a pool does not.

use super::gain::unquantified;
use super::{Draft, Figures, NamedLocation, NotJudged, Proof, ThreadTime, low, words};

/// Threads per CPU: one more than CPUs may be the one that prepared the others' work.
const MANY: f64 = 2.0;
/// A thread computes if it has this part of the most busy one's CPU time.
const WORKS: f64 = 0.3;
/// Threads that live at a time, per CPU, at the least.
const CROWD: f64 = 1.3;
/// CPU time that other programs took counts from this share of the CPUs' time on.
const CROWDED: f64 = 0.1;
/// Busy CPUs, percent of those that may be used; the rest of the machine counts, as far as others use it.
const BUSY: f64 = 85.0;

pub(super) fn judge(figures: &Figures) -> Result<Vec<Draft>, NotJudged> {
    let threads = figures.threads.as_ref().map_err(NotJudged::clone)?;
    let cpus = figures.usable_cpus.ok_or("the number of usable CPUs is not known")?;
    let cpu = figures.cpu_time.value.ok_or("the CPU time of the program is not known")?;
    let most = threads.iter().map(|thread| thread.cpu.value.unwrap_or(0.0)).fold(0.0, f64::max);
    let working: Vec<&ThreadTime> =
        threads.iter().filter(|thread| low(&thread.cpu) >= WORKS * most).collect();
    let offered = (cpus * figures.elapsed).max(1e-9);
    let others = figures.other_percent.value.unwrap_or(0.0);
    let busy = cpu / offered * 100.0 + others;
    // Threads one after another are not too many: together they must have lived much longer than the CPUs offer, also
    // without what other programs may have prolonged their lives by.
    let lived: f64 = working.iter().map(|thread| thread.life.1 - thread.life.0).sum();
    let lived = lived * (1.0 - others / 100.0).max(0.0);
    let many = working.len() as f64 >= cpus * MANY && lived >= CROWD * offered;
    let crowded_out = figures.displaced >= CROWDED * offered;
    let stay = many && (!crowded_out || many_alone(&working, cpus));
    let come_and_go = low(&figures.runnable) >= cpus * MANY && !crowded_out;
    // Threads that start a step together queue, though CPUs are idle at its end.
    let queue = low(&figures.runnable) >= cpus * CROWD && !crowded_out;
    if !(busy >= BUSY || queue) || !(stay || come_and_go) {
        return Ok(Vec::new());
    }
    let (count, do_what) = match figures.runnable.value {
        Some(runnable) if !stay => (runnable.round() as usize, "are runnable at a time"),
        _ => (working.len(), "compute"),
    };
    // Part of a CPU is one that stands still now and then.
    let most_at_once = cpus.ceil().max(1.0);
    let quota = match figures.quota {
        Some(quota) => format!(" (a quota of {quota:.1} CPUs is set)"),
        None => String::new(),
    };
    let mut evidence = vec![
        Proof::new("CPU time", &figures.cpu_time),
        Proof::new("lifetime of threads without running", &figures.waiting),
    ];
    if figures.runnable.value.is_some() {
        evidence.push(Proof::new("runnable threads at a time", &figures.runnable));
    }
    Ok(vec![Draft {
        title: format!("{count} threads {do_what} on {most_at_once} CPUs{quota}"),
        evidence,
        place: NamedLocation::default(),
        advice: format!(
            "Start at most {most_at_once} threads, as many as can run here (OMP_NUM_THREADS, or the program's own \
             option). More threads only wait for each other and evict each other's data from the caches."
        ),
        gain: unquantified("depends on what the threads wait for"),
        next: words("report threads"),
    }])
}

/// Whether the threads, born when they were and with nothing to do but to compute what they did, would crowd CPUs of their
/// own. All that live share these evenly (processor sharing), which is what the scheduler does.
fn many_alone(working: &[&ThreadTime], cpus: f64) -> bool {
    let mut births: Vec<(f64, f64)> =
        working.iter().map(|thread| (thread.life.0, thread.cpu.value.unwrap_or(0.0))).collect();
    births.sort_by(|a, b| a.0.total_cmp(&b.0));
    let Some(&(first, _)) = births.first() else { return false };
    let (mut now, mut lived) = (first, 0.0);
    let mut living: Vec<f64> = Vec::new();
    let mut to_come = births.into_iter().peekable();
    while !living.is_empty() || to_come.peek().is_some() {
        let rate = (cpus / living.len() as f64).min(1.0);
        let shortest = living.iter().copied().fold(f64::MAX, f64::min);
        let done = if living.is_empty() { f64::MAX } else { now + shortest / rate };
        let next = to_come.peek().map_or(f64::MAX, |birth| birth.0).min(done).max(now);
        lived += (next - now) * living.len() as f64;
        for left in &mut living {
            *left -= (next - now) * rate;
        }
        now = next;
        // A rounding error must not keep a thread alive.
        living.retain(|left| *left > 1e-9);
        while let Some((_, cpu)) = to_come.next_if(|birth| birth.0 <= now) {
            living.push(cpu);
        }
    }
    lived >= CROWD * cpus * (now - first)
}
