//! A short reading of the memory's present speed, to be compared with the stored calibration.
//!
//! What for: on a shared host the neighbours change with the hours, and a run must be judged by the speed that the memory had
//! *then*. What not: figures of the machine by themselves (`bandwidth` has them, over more memory and more passes); what
//! follows from a reading (`analysis`).
//!
//! A reading takes alternating passes of two kernels whose bus traffic is certain, of reads and of a mixture, with many
//! threads and with one. It needs little memory, because getting it may take longer than all passes: a virtual machine whose host
//! finds free memory only when it is touched got 256 MiB in 340 ms, and 11 ms the next time. So caches could hold what is passed
//! over. Hence non-temporal stores to all of it come before each pass: they leave no line in any cache (Intel SDM vol. 1,
//! 10.4.6.2; AMD APM vol. 1, 5.5.5). It is given up, with a reason, where memory is short or takes too long to get.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base::{Bytes, CpuId};
use facts::host::{Calibration, Host, MemoryReading, ReadingMoment, ReadingPoint};
use sys::kernels::{Buffer, Kernel, KernelError, Pages, Simd, sweep_again};

use crate::bandwidth::bus_factor;
use crate::plan::{Plan, available};
use crate::statistics::median_metric;
use crate::workers;

/// Reads, and reads with writes.
const KERNELS: [Kernel; 2] = [Kernel::Load, Kernel::TriadNt];
/// So many threads use up the memory of any node; starting more would take longer than a pass.
const MOST_THREADS: usize = 16;
/// What each thread passes over, in 0.1 to 1 ms: this much, or at least the other where memory comes slowly.
const OF_THREAD: Bytes = Bytes(16 << 20);
const LEAST_OF_THREAD: Bytes = Bytes(4 << 20);
/// A reading takes at most this share of the available memory.
const MEMORY_SHARE: u64 = 16;
/// Memory is awaited until then, and no pass begins after the other.
const POPULATED: Duration = Duration::from_millis(45);
const ROUNDS_END: Duration = Duration::from_millis(60);
/// Passes of a point: at most, and the fewest undisturbed ones that count.
const ROUNDS: usize = 9;
const FEWEST: usize = 2;
/// Memory comes in such pieces: huge pages.
const PIECE: Bytes = Bytes(2 << 20);
/// The threads of a pass run together for so much of it, or something disturbed them.
const TOGETHER: f64 = 0.8;

/// What is the same for all readings of a recording.
#[derive(Debug)]
pub struct Reader {
    host: Host,
    cpus: Vec<CpuId>,
    points: Vec<(Kernel, usize)>,
}

/// The memory of one thread, of which the first `filled` bytes are there.
struct Part {
    cpu: CpuId,
    buffer: Buffer,
    filled: Bytes,
}

impl Reader {
    /// Plans readings to be compared with `stored`, in a few milliseconds.
    ///
    /// # Errors
    /// Why there can be none.
    pub fn new(host: &Host, stored: &Calibration) -> Result<Reader, String> {
        if !cfg!(target_arch = "x86_64") {
            return Err("Fathom knows no stores past the caches of this processor".to_owned());
        }
        let plan = Plan::new(host, Duration::MAX, &mut Vec::new());
        let counts = plan.thread_counts.iter().copied().filter(|count| *count <= MOST_THREADS);
        let most = counts.max().unwrap_or(1);
        let is_known = |(kernel, threads): &(Kernel, usize)| {
            let same = stored
                .bandwidth
                .iter()
                .find(|point| point.kernel == kernel.name() && point.threads as usize == *threads);
            same.is_some_and(|point| point.bus.value.is_some_and(|rate| rate > 0.0))
        };
        let counts = if most > 1 { vec![most, 1] } else { vec![1] };
        let points = counts.iter().flat_map(|threads| KERNELS.map(|kernel| (kernel, *threads)));
        let points: Vec<(Kernel, usize)> = points.filter(is_known).collect();
        if points.is_empty() {
            return Err(
                "the stored figures of this machine have no such kernel to compare with".to_owned()
            );
        }
        Ok(Reader { host: host.clone(), cpus: plan.cpus.into_iter().take(most).collect(), points })
    }

    /// Takes a reading, in some 60 ms.
    ///
    /// # Errors
    /// Why it was not possible.
    pub fn read(&self, moment: ReadingMoment) -> Result<MemoryReading, String> {
        let started = Instant::now();
        let all = Bytes(OF_THREAD.0 * self.cpus.len() as u64);
        let free = available(&self.host, &mut Vec::new());
        if all.0 > free.0 / MEMORY_SHARE {
            return Err(format!("it needs {all} and only {free} is available"));
        }
        let said = |error: KernelError| error.to_string();
        let mut parts = self.populate(started + POPULATED).map_err(said)?;
        let filled = parts.iter().map(|part| part.filled).min().unwrap_or(Bytes(0));
        if filled < LEAST_OF_THREAD {
            let (limit, got) = (POPULATED.as_millis(), filled);
            return Err(format!(
                "the kernel gave each thread {got} of memory in {limit} ms, and it needs {LEAST_OF_THREAD}"
            ));
        }
        // Rates of passes that nothing disturbed, and of all.
        let mut samples: Vec<[Vec<f64>; 2]> = vec![Default::default(); self.points.len()];
        for point in (0..self.points.len()).cycle().take(self.points.len() * ROUNDS) {
            if started.elapsed() > ROUNDS_END {
                break;
            }
            let (kernel, threads) = self.points[point];
            let (rate, disturbed) = pass(kernel, &mut parts[..threads], filled).map_err(said)?;
            let [good, all] = &mut samples[point];
            all.push(rate * bus_factor(kernel));
            if !disturbed {
                good.push(rate * bus_factor(kernel));
            }
        }
        drop(parts);
        let enough = self.points.iter().zip(samples).filter(|(_, [good, _])| good.len() >= FEWEST);
        let points = enough.map(|((kernel, threads), [good, all])| ReadingPoint {
            kernel: kernel.name().to_owned(),
            threads: *threads as u32,
            bus: median_metric(&good, "GB/s").with_lost((all.len() - good.len()) as u64),
            passes: all,
        });
        let points: Vec<ReadingPoint> = points.collect();
        if points.is_empty() {
            return Err("other programs had the CPUs".to_owned());
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        Ok(MemoryReading {
            moment,
            measured_unix: now.map_or(0, |since| since.as_secs()),
            bytes: filled.0 * self.cpus.len() as u64,
            points,
            took_seconds: started.elapsed().as_secs_f64(),
        })
    }

    /// Has each CPU touch memory of its own, until then.
    fn populate(&self, until: Instant) -> Result<Vec<Part>, KernelError> {
        let mut parts = Vec::new();
        for cpu in &self.cpus {
            let buffer = Buffer::map(OF_THREAD, Pages::Huge)?;
            parts.push(Part { cpu: *cpu, buffer, filled: Bytes(0) });
        }
        workers::together(
            parts.iter_mut().map(|part| (part.cpu, part)).collect(),
            |part: &mut Part| {
                for piece in part.buffer.words_mut().chunks_mut(PIECE.0 as usize / 8) {
                    // No zeros: memory of equal zero pages may be treated specially by hypervisors.
                    piece.fill(1);
                    if Instant::now() >= until {
                        break;
                    }
                    part.filled = Bytes(part.filled.0 + PIECE.0);
                }
            },
        )?;
        Ok(parts)
    }
}

/// One pass of the threads with these parts, after one that empties the caches of them: program GB/s in total, and
/// whether it was disturbed. Threads do not start at the same instant, so each has a rate of its own.
fn pass(kernel: Kernel, parts: &mut [Part], bytes: Bytes) -> Result<(f64, bool), KernelError> {
    let simd = Simd::available().last().copied().unwrap_or(Simd::Baseline);
    let run = |parts: &mut [Part], kernel: Kernel| {
        let jobs = parts.iter_mut().map(|part| (part.cpu, &mut part.buffer)).collect();
        workers::together(jobs, |buffer: &mut Buffer| {
            let begin = Instant::now();
            let elements = sweep_again(kernel, simd, buffer, bytes, 1);
            (begin, Instant::now(), elements as f64)
        })
    };
    run(parts, Kernel::StoreNt)?;
    let done = run(parts, kernel)?;
    let rate = |(begin, end, elements): &(Instant, Instant, f64)| {
        elements / end.saturating_duration_since(*begin).as_secs_f64().max(1e-9)
    };
    let rates: f64 = done.results.iter().map(rate).sum();
    let first_end = done.results.iter().map(|(_, end, _)| *end).min();
    let last_begin = done.results.iter().map(|(begin, ..)| *begin).max();
    let together = first_end
        .zip(last_begin)
        .map_or(Duration::ZERO, |(end, begin)| end.saturating_duration_since(begin));
    let disturbed = done.disturbed || together < done.elapsed.mul_f64(TOGETHER);
    Ok((rates * kernel.program_bytes_per_element() as f64 / 1e9, disturbed))
}
