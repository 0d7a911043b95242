//! What one clock sample costs the thread that is sampled: the timer's interrupt, walking the kernel's part of the
//! stack, copying 8 KiB of user stack.
//!
//! A fixed piece of work runs in turn with and without a sampling clock of 20 kHz on its own thread; the difference in
//! CPU time over the number of samples is the cost. Not included: cache lines of the program that the copy evicts (the
//! work here needs none), and the reader's work, which is counted in every recording.

use base::{CpuId, Nanos, Tid};
use facts::host::Calibration;
use sys::perf::{Attr, Counting, Event, Flag, OpenTarget, Ring, SoftwareEvent};
use sys::process::thread_cpu_time;

use crate::plan::Plan;
use crate::statistics::median_metric;
use crate::workers;

/// Odd, so that the median of differences is one of them.
const REPEATS: usize = 15;
/// Twenty times the usual rate, so that the difference stands out of the noise.
const PERIOD: u64 = 50_000;
/// About 5 ms of dependent arithmetic.
const WORK: u64 = 2_500_000;
/// As a recording copies by default (knob `stack-size`).
const STACK_BYTES: u32 = 8192;
const RING_BYTES: usize = 2 << 20;
const RECORD_SAMPLE: u32 = 9; // PERF_RECORD_SAMPLE

/// Measures it where perf events are allowed.
pub(crate) fn measure(plan: &Plan, calibration: &mut Calibration) {
    let cpu = plan.cpus[0];
    let outcome = workers::alone(cpu, || costs(cpu));
    match outcome {
        Ok(Ok(costs)) if costs.len() >= REPEATS / 2 => {
            calibration.sample_cost = Some(median_metric(&costs, "ns"));
        }
        Ok(Ok(_)) => {
            calibration.notes.push("no cost of a clock sample: too few samples came".to_owned())
        }
        Ok(Err(error)) => {
            calibration
                .notes
                .push(format!("no cost of a clock sample: perf events are refused ({error})"));
        }
        Err(error) => calibration.notes.push(format!("no cost of a clock sample: {error}")),
    }
}

/// Nanoseconds per sample, one figure per repeat.
fn costs(cpu: CpuId) -> std::io::Result<Vec<f64>> {
    let event = open(cpu)?;
    let mut ring = Ring::map(&event, RING_BYTES / sys::process::page_size())?;
    let mut costs = Vec::new();
    for _ in 0..REPEATS {
        let plain = timed_work();
        event.set(Counting::On)?;
        let sampled = timed_work();
        event.set(Counting::Off)?;
        let mut samples = 0u32;
        ring.drain(|record| samples += u32::from(record.starts_with(&RECORD_SAMPLE.to_le_bytes())));
        if samples > 10 {
            costs.push((sampled.0 as f64 - plain.0 as f64) / f64::from(samples));
        }
    }
    Ok(costs)
}

/// The calling thread's clock with the fields that a recording has.
fn open(cpu: CpuId) -> std::io::Result<Event> {
    let attr = Attr::recording(SoftwareEvent::CpuClock, STACK_BYTES)
        .all_registers()
        .period(PERIOD)
        .flags(&[Flag::Disabled, Flag::ExcludeHv]);
    let this_thread = OpenTarget { tid: Tid(0), cpu: Some(cpu) };
    sys::perf::open(&attr, this_thread)
        .or_else(|_| sys::perf::open(&attr.flags(&[Flag::ExcludeKernel]), this_thread))
}

/// CPU time of a fixed piece of work.
fn timed_work() -> Nanos {
    let before = thread_cpu_time();
    let mut value = 1u64;
    for step in 0..WORK {
        // A chain that no compiler can shorten and no CPU can overlap.
        value = std::hint::black_box(value.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ step);
    }
    std::hint::black_box(value);
    thread_cpu_time() - before
}
