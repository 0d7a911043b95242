//! Threads that start together, each on its own CPU.
//!
//! What not: the work that they do.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use base::CpuId;
use sys::kernels::{KernelError, pin_current_thread};
use sys::process::thread_cpu_time;

/// What the threads did and how long that took.
pub(crate) struct GroupRun<R> {
    /// In the order of the jobs.
    pub results: Vec<R>,
    /// From the start of the first to the end of the last: the time that a program would have waited.
    pub elapsed: Duration,
    /// Another program had one of the CPUs for a noticeable time in between.
    pub disturbed: bool,
}

/// More of the wall-clock time without the CPU than this, and a repeat counts as disturbed. The kernel's own
/// housekeeping takes about 0.1 %.
const DISTURBED: f64 = 0.02;

/// The two clocks are not read at the same instant.
const CLOCK_SKEW: Duration = Duration::from_micros(20);

/// How long some work of one thread took.
#[derive(Clone, Copy)]
pub(crate) struct Watched {
    /// By the wall clock.
    pub elapsed: Duration,
    /// CPU time of the thread: without the time that others had the CPU.
    pub on_cpu: Duration,
    /// Whether others had it for a noticeable time.
    pub disturbed: bool,
}

/// Runs `work` and tells how long it took and whether the thread was stopped in between.
pub(crate) fn watched<R>(work: impl FnOnce() -> R) -> (R, Watched) {
    let cpu_before = thread_cpu_time();
    let start = Instant::now();
    let result = work();
    let elapsed = start.elapsed();
    let on_cpu = Duration::from_nanos(thread_cpu_time().saturating_sub(cpu_before).0);
    let missing = elapsed.saturating_sub(on_cpu).saturating_sub(CLOCK_SKEW);
    (result, Watched { elapsed, on_cpu, disturbed: missing > elapsed.mul_f64(DISTURBED) })
}

/// Runs `work` on each job at the same time, pinned to the job's CPU.
pub(crate) fn together<J: Send, R: Send>(
    jobs: Vec<(CpuId, J)>,
    work: impl Fn(J) -> R + Sync,
) -> Result<GroupRun<R>, KernelError> {
    let barrier = Barrier::new(jobs.len());
    type Outcome<R> = Result<(Instant, R, Watched), KernelError>;
    let outcomes: Vec<Outcome<R>> = std::thread::scope(|scope| {
        let (barrier, work) = (&barrier, &work);
        let threads: Vec<_> = jobs
            .into_iter()
            .map(|(cpu, job)| {
                scope.spawn(move || {
                    let pinned = pin_current_thread(cpu);
                    // Also with an error: the others wait here.
                    barrier.wait();
                    pinned?;
                    let start = Instant::now();
                    let (result, watched) = watched(|| work(job));
                    Ok((start, result, watched))
                })
            })
            .collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| match thread.join() {
            Ok(outcome) => outcome,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        threads.into_iter().map(join).collect()
    });
    let mut results = Vec::new();
    let mut span: Option<(Instant, Instant)> = None;
    let mut any_disturbed = false;
    for outcome in outcomes {
        let (start, result, watched) = outcome?;
        let end = start + watched.elapsed;
        any_disturbed |= watched.disturbed;
        results.push(result);
        span = Some(span.map_or((start, end), |(first, last)| (first.min(start), last.max(end))));
    }
    let elapsed = span.map_or(Duration::ZERO, |(first, last)| last - first);
    Ok(GroupRun { results, elapsed, disturbed: any_disturbed })
}

/// Runs `work` on one CPU in a thread of its own, so that our own affinity stays as it was.
pub(crate) fn alone<R: Send>(
    cpu: CpuId,
    work: impl FnOnce() -> R + Send,
) -> Result<R, KernelError> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(move || {
            pin_current_thread(cpu)?;
            Ok(work())
        });
        match thread.join() {
            Ok(outcome) => outcome,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}
