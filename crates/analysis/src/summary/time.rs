//! Elapsed time, CPU time, and how the time of all threads divides.

use base::Nanos;
use facts::{Evidence, Metric, RunState};

use crate::faults::FaultCost;
use crate::profile::Profile;
use crate::threading::{InMpi, SpinTable};
use crate::weight::Weight;

/// Where the time of all threads went, in seconds; the parts add up to the threads' lifetimes.
#[derive(Clone, PartialEq, Debug)]
pub struct TimeSplit {
    /// CPU time in the program and its libraries.
    pub user: Metric,
    /// Of CPU time: threads that spin in an OpenMP library, at a spin lock or in a call of MPI, until another thread or rank comes.
    pub spinning: Metric,
    /// CPU time in calls of MPI. Only of programs that call it.
    pub mpi: Option<MpiTime>,
    /// CPU time in the kernel, without page faults where these are known.
    pub kernel: Metric,
    /// CPU time serving page faults.
    pub page_faults: Metric,
    /// Threads that existed without running: waiting for others, for I/O, for a free CPU.
    pub waiting: Metric,
    /// Sum of the threads' lifetimes.
    pub thread_time: Metric,
}

/// CPU time in calls of MPI, that of the kernel included.
#[derive(Clone, PartialEq, Debug)]
pub struct MpiTime {
    /// In which the rank waits for others: a part of the spinning. At most: with what may be waiting or not.
    pub wait: Metric,
    /// In which it copies or combines data.
    pub moving: Metric,
    /// All of it.
    pub calls: Metric,
}

pub(super) fn elapsed(profile: &Profile<'_>) -> Metric {
    let metric = Metric::counted(profile.elapsed().seconds(), "s");
    match profile.recording.run.state {
        RunState::Complete => metric,
        RunState::Incomplete => metric.noted("the recording was not closed: time of its last fact"),
    }
}

pub(super) fn paused(profile: &Profile<'_>) -> Option<Metric> {
    let paused = profile.elapsed() - profile.observed();
    (!profile.pauses().is_empty()).then(|| Metric::counted(paused.seconds(), "s"))
}

pub(super) fn cpu_time(profile: &Profile<'_>) -> Metric {
    if let Some(seconds) = profile.counted_cpu_seconds() {
        return Metric::counted(seconds, "s");
    }
    if profile.whole().is_empty() {
        return Metric::unavailable("s", profile.why_no_samples());
    }
    let (value, interval) = profile.whole().poisson_total(1e-9);
    Metric::with_interval(Evidence::Sampled, value, "s", interval, profile.whole().records())
        .with_lost(profile.lost_samples())
        .noted("sum of the sampling periods: no counter of CPU time was available")
}

pub(super) fn utilisation(cpu_time: &Metric, elapsed: Nanos, cpus: Option<f64>) -> Metric {
    let offered = cpus.map_or(0.0, |cpus| cpus * elapsed.seconds());
    if offered <= 0.0 {
        return Metric::unavailable(
            "percent",
            "the number of usable CPUs or the elapsed time is not known",
        );
    }
    cpu_time.times(100.0 / offered, "percent")
}

/// User and system time of getrusage are divided by who is hit by the clock's ticks, of 1 to 10 ms (`cputime_adjust` in
/// kernel/sched/cputime.c): with less than ten of them the division means nothing.
const TICKED: Nanos = Nanos(100_000_000);

/// Time of the program in the kernel.
pub(super) struct KernelTime {
    /// Of its CPU time, percent.
    pub(super) percent: Metric,
    pub(super) seconds: Metric,
}

impl KernelTime {
    fn unavailable(why: &str) -> KernelTime {
        let [percent, seconds] = ["percent", "s"].map(|unit| Metric::unavailable(unit, why));
        KernelTime { percent, seconds }
    }
}

/// From samples, else from what the kernel counted.
pub(super) fn kernel_time(profile: &Profile<'_>) -> KernelTime {
    if profile.samples_kernel() && !profile.whole().is_empty() {
        let mut part = Weight::default();
        profile
            .stack_cells()
            .iter()
            .filter(|cell| cell.kernel)
            .for_each(|cell| part.merge(&cell.weight));
        let scale = profile.cpu_scale();
        return KernelTime { percent: scale.percent(&part), seconds: scale.quantity(&part) };
    }
    match profile.recording.run.resource_use.as_ref() {
        Some(usage) if usage.user_ns.saturating_add(usage.system_ns) < TICKED.0 => {
            KernelTime::unavailable(
                "the program ran too briefly for the kernel's part: the kernel divides CPU time by its clock ticks",
            )
        }
        Some(usage) if usage.user_ns.saturating_add(usage.system_ns) > 0 => {
            let (user, system) = (Nanos(usage.user_ns).seconds(), Nanos(usage.system_ns).seconds());
            let percent = Metric::counted(system / (user + system) * 100.0, "percent")
                .noted("from getrusage: time in the kernel was not sampled");
            KernelTime { percent, seconds: Metric::counted(system, "s") }
        }
        _ => KernelTime::unavailable("time in the kernel was neither sampled nor counted"),
    }
}

/// All, and in calls of MPI.
fn spinning(profile: &Profile<'_>) -> (Metric, Option<MpiTime>) {
    let is_rank = profile.recording.run.rank.is_some();
    if profile.whole().is_empty() {
        let unknown = || Metric::unavailable("s", profile.why_no_samples());
        let mpi = || MpiTime { wait: unknown(), moving: unknown(), calls: unknown() };
        return (unknown(), is_rank.then(mpi));
    }
    let mut table = SpinTable::new(&profile.stacks);
    let [mut all, mut waits, mut may_wait, mut moves, mut may_move, mut calls] =
        [(); 6].map(|()| Weight::default());
    for cell in profile.stack_cells() {
        let add = |sums: &mut [&mut Weight]| {
            sums.iter_mut().for_each(|sum| sum.merge(&cell.weight));
        };
        match table.in_mpi(cell.stack) {
            Some(InMpi::Waits) => add(&mut [&mut all, &mut waits, &mut may_wait, &mut calls]),
            Some(InMpi::Moves) => add(&mut [&mut moves, &mut may_move, &mut calls]),
            Some(InMpi::Unclear) => add(&mut [&mut may_wait, &mut may_move, &mut calls]),
            Some(InMpi::Works) => add(&mut [&mut calls]),
            // The kernel works while an OpenMP library asks it to wait.
            None if !cell.kernel && table.spins(cell.stack) => add(&mut [&mut all]),
            None => {}
        }
    }
    let scale = profile.cpu_scale();
    // What is unclear is in the upper end.
    let at_most = |least: &Weight, most: &Weight, note: &str| {
        let (least, high) = (scale.quantity(least), scale.quantity(most).high);
        match high > least.high {
            true => Metric { high, ..least }.noted(note),
            false => least,
        }
    };
    let mpi = MpiTime {
        wait: at_most(&waits, &may_wait, "at most with code of MPI that waits or works"),
        moving: match profile.samples_kernel() {
            true => at_most(&moves, &may_move, "at most with code of MPI that may copy or not"),
            false => Metric { high: None, ..scale.quantity(&moves) }
                .noted("time in the kernel was not sampled: copies there are missing"),
        },
        calls: scale.quantity(&calls),
    };
    (scale.quantity(&all), (is_rank || calls.amount() > 0).then_some(mpi))
}

pub(super) fn time_split(
    profile: &Profile<'_>,
    cpu: &Metric,
    kernel: &Metric,
    faults: &FaultCost,
) -> TimeSplit {
    // An estimate from the count can exceed the kernel time it is a part of.
    let within = |faults: Option<f64>, kernel: Option<f64>| {
        faults.map(|faults| faults.min(kernel.unwrap_or(f64::INFINITY)))
    };
    let page_faults = Metric {
        value: within(faults.time.value, kernel.value),
        low: within(faults.time.low, kernel.value),
        high: within(faults.time.high, kernel.high),
        ..faults.time.clone()
    };
    let why = kernel.note.as_deref().unwrap_or_default();
    let other_kernel = match (kernel.value, page_faults.value) {
        (Some(_), None) => Metric { low: kernel.low.map(|_| 0.0), ..kernel.clone() }
            .noted("with page faults, whose time is unknown"),
        _ => kernel_without_faults(profile, difference(kernel, &page_faults, why)),
    };
    let thread_time = match profile.threads.lifetime(profile.pauses()) {
        Some(lifetime) => Metric::counted(lifetime.seconds(), "s"),
        None => Metric::unavailable("s", "the start of some threads was not recorded"),
    };
    let (spinning, mpi) = spinning(profile);
    TimeSplit {
        spinning,
        mpi,
        user: difference(cpu, kernel, "the kernel's part of the CPU time is unknown"),
        kernel: other_kernel,
        page_faults,
        waiting: difference(&thread_time, cpu, "the lifetimes of the threads are unknown"),
        thread_time,
    }
}

/// What is left without a part, between the ends that are furthest apart: how the two vary together is not known. `why`: where one of
/// them is unknown.
fn difference(whole: &Metric, part: &Metric, why: &str) -> Metric {
    let less =
        |of: Option<f64>, part: Option<f64>| of.zip(part).map(|(of, part)| (of - part).max(0.0));
    let Some(value) = less(whole.value, part.value) else {
        return Metric::unavailable("s", why);
    };
    Metric {
        value: Some(value),
        low: less(whole.low, part.high),
        high: less(whole.high, part.low),
        evidence: Some(Evidence::Estimated),
        note: Some("difference of two figures".to_owned()),
        ..whole.clone()
    }
}

/// Where samples alone say what page faults take, they say as well what the rest of the kernel takes, and how sure that is.
fn kernel_without_faults(profile: &Profile<'_>, difference: Metric) -> Metric {
    let mut part = Weight::default();
    for cell in profile.stack_cells() {
        if cell.kernel && !profile.stacks.in_page_fault(cell.stack) {
            part.merge(&cell.weight);
        }
    }
    let sampled = profile.cpu_scale().quantity(&part);
    let is_same = |(one, other): (f64, f64)| (one - other).abs() <= 1e-9 * one.max(other);
    match sampled.value.zip(difference.value).is_some_and(is_same) {
        true => sampled,
        false => difference,
    }
}
