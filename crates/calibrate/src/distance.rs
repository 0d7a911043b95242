//! Measures the skid of clock samples: the number of instructions between the one that the core waited for and the
//! one that the sample names.
//!
//! What for: `x86::Surroundings` lists the instructions 0, 1, 2 ... before a sample; which of these stalled differs
//! by processor. Loops with a known answer (`sys::kernels::wait_for`) run under the clock that recordings use. What
//! not: conclusions for a program (`analysis`). Assumption: the instructions next to the known one take almost no
//! time. A loop with less than half of its samples near it did not wait for it and gives no answer.

use base::{Bytes, CpuId, Tid};
use facts::host::{Calibration, SampleDistance};
use facts::{Evidence, Metric};
use sys::kernels::{Buffer, Pages, Wait, WaitedAt, wait_for};
use sys::perf::{Attr, Counting, Event, Flag, OpenTarget, Ring, SoftwareEvent};

use crate::plan::Plan;
use crate::workers;

const KINDS: [(Wait, &str); 5] = [
    (Wait::Load, "load"),
    (Wait::LoadOperand, "load-op"),
    (Wait::Atomic, "atomic"),
    (Wait::Store, "store"),
    (Wait::Division, "division"),
];
/// Twenty times the usual rate.
const PERIOD: u64 = 50_000;
/// Enough for shares within 5 points.
const ENOUGH: u64 = 400;
/// About 2 ms each, where a turn takes 100 ns.
const TURNS: u64 = 20_000;
/// A machine whose clock gives no samples must not hold up the calibration: 0.4 s for a loop.
const MOST_ROUNDS: usize = 200;
/// Beyond what one core's caches keep, on most machines: a turn waits for the last cache or memory.
const SIZE: Bytes = Bytes(64 << 20);
const RING_BYTES: usize = 1 << 20;
const RECORD_SAMPLE: u32 = 9; // PERF_RECORD_SAMPLE
/// Where the instruction pointer stands in a record: behind the header and the identifier.
const IP_AT: std::ops::Range<usize> = 16..24;

/// Measures them where perf events are allowed.
pub(crate) fn measure(plan: &Plan, calibration: &mut Calibration) {
    let cpu = plan.cpus[0];
    let size = Bytes(SIZE.0.min(plan.memory.0));
    match workers::alone(cpu, || distances(cpu, size)) {
        Ok(Ok(found)) => {
            let names = KINDS.map(|(_, name)| name);
            let unmeasured: Vec<&str> = names
                .into_iter()
                .filter(|name| found.iter().all(|one| one.kind != *name))
                .collect();
            calibration.sample_distances = found;
            if !unmeasured.is_empty() {
                calibration.notes.push(format!(
                    "no distance of clock samples from what is waited for, of: {}",
                    unmeasured.join(", ")
                ));
            }
        }
        Ok(Err(error)) => calibration
            .notes
            .push(format!("no distances of clock samples from what is waited for: {error}")),
        Err(error) => calibration
            .notes
            .push(format!("no distances of clock samples from what is waited for: {error}")),
    }
}

/// Those that could be measured.
fn distances(
    cpu: CpuId,
    size: Bytes,
) -> Result<Vec<SampleDistance>, Box<dyn std::error::Error + Send + Sync>> {
    let mut buffer = Buffer::map(size, Pages::Base)?;
    // A page without memory behind it would fault instead of waiting.
    buffer.words_mut().fill(1);
    let event = open(cpu)?;
    let mut ring = Ring::map(&event, RING_BYTES / sys::process::page_size())?;
    let mut found = Vec::new();
    for (wait, name) in KINDS {
        let percent = distance(wait, &mut buffer, &event, &mut ring)?;
        found.extend(percent.map(|percent| SampleDistance { kind: name.to_owned(), percent }));
    }
    Ok(found)
}

fn distance(
    wait: Wait,
    buffer: &mut Buffer,
    event: &Event,
    ring: &mut Ring,
) -> std::io::Result<Option<Vec<Metric>>> {
    let (mut counts, mut all) = ([0u64; 4], 0);
    for _ in 0..MOST_ROUNDS {
        event.set(Counting::On)?;
        let waited_at = wait_for(wait, buffer, TURNS);
        event.set(Counting::Off)?;
        let Some(waited_at) = waited_at else { return Ok(None) };
        ring.drain(|record| count(record, &waited_at, &mut counts, &mut all));
        if all >= ENOUGH {
            break;
        }
    }
    let near: u64 = counts.iter().sum();
    let waited = all >= ENOUGH / 4 && near * 2 >= all;
    Ok(waited.then(|| counts.map(|count| share(count, all)).to_vec()))
}

/// Counts a sample of our own code.
fn count(record: &[u8], waited_at: &WaitedAt, counts: &mut [u64; 4], all: &mut u64) {
    let is_sample = record.starts_with(&RECORD_SAMPLE.to_le_bytes());
    let Some(bytes) = record.get(IP_AT).filter(|_| is_sample) else { return };
    let Ok(ip) = bytes.try_into().map(u64::from_le_bytes) else { return };
    // The kernel's half.
    if ip >> 63 == 1 {
        return;
    }
    *all += 1;
    if let Some(distance) = waited_at.iter().position(|address| *address == ip) {
        counts[distance] += 1;
    }
}

/// With the standard error of a binomial share, at least of one sample.
fn share(count: u64, all: u64) -> Metric {
    let (share, all_samples) = (count as f64 / all as f64, all as f64);
    let error = 1.96 * (share * (1.0 - share) / all_samples).sqrt().max(1.0 / all_samples);
    let interval = ((share - error).max(0.0) * 100.0, (share + error).min(1.0) * 100.0);
    Metric::with_interval(Evidence::Calibrated, share * 100.0, "percent", interval, all)
}

/// The calling thread's clock with the fields that a recording has.
fn open(cpu: CpuId) -> std::io::Result<Event> {
    let attr = Attr::recording(SoftwareEvent::CpuClock, 0)
        .period(PERIOD)
        .flags(&[Flag::Disabled, Flag::ExcludeHv]);
    let this_thread = OpenTarget { tid: Tid(0), cpu: Some(cpu) };
    sys::perf::open(&attr, this_thread)
        .or_else(|_| sys::perf::open(&attr.flags(&[Flag::ExcludeKernel]), this_thread))
}
