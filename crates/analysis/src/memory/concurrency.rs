//! How many threads of the program run while a burst is taken.
//!
//! What for: the bandwidth of memory depends on the number of threads that use it. A program that reads its input with one thread
//! and then computes with all of them has bursts in both parts, and the mean of the whole run fits neither.
//! What not: the bandwidth reachable with as many threads (`bound`).
//! Assumption: within some 100 ms the program does the same.

use base::Nanos;
use facts::{Privilege, Recording, Sample};

use super::bins::Bins;

/// CPU time is summed for so long, or longer in recordings of hours: some 25 samples of each thread.
const WIDTH: Nanos = Nanos(25_000_000);
/// Bins at most, whatever a recording says of its length.
const MOST_BINS: u64 = 1_000_000;
/// Bins on either side of a burst's that count.
const AROUND: usize = 2;

/// For each of these moments: threads that run their own code, on average; at least 1, the one that is seen. `scale`:
/// seconds per nanosecond of sample weight. `None` without samples.
pub(super) fn concurrency(
    recording: &Recording,
    moments: impl Iterator<Item = Nanos>,
    scale: f64,
) -> Option<Vec<f64>> {
    let (length, pauses) = (Nanos(recording.run.elapsed_ns), recording.pauses());
    let bins = Bins { width: WIDTH.max(Nanos(length.0.div_ceil(MOST_BINS))), length };
    if scale <= 0.0 || bins.count() == 0 {
        return None;
    }
    let mut used = vec![0u64; bins.count()];
    let user = |sample: &&Sample| sample.privilege != Privilege::Kernel;
    for sample in recording.samples.iter().filter(user) {
        let bin = bins.index(sample.time)?;
        used[bin] = used[bin].saturating_add(sample.weight.0);
    }
    let concurrency = |time: Nanos| {
        let bin = bins.index(time).unwrap_or_default();
        let (first, last) = (bin.saturating_sub(AROUND), (bin + AROUND).min(used.len() - 1));
        let weight: u64 = used[first..=last].iter().fold(0, |sum, one| sum.saturating_add(*one));
        let length = pauses.observed(bins.start(first), bins.end(last)).0.max(1);
        (weight as f64 * scale / (length as f64 * 1e-9)).max(1.0)
    };
    Some(moments.map(concurrency).collect())
}

#[cfg(test)]
mod tests {
    use base::{Pid, Tid};

    use super::*;

    #[test]
    fn threads_count_while_they_run() {
        let mut recording = Recording::default();
        recording.run.elapsed_ns = 1_000_000_000;
        // One thread for half a second, then two: a sample of each every millisecond.
        for ms in 0..1000u64 {
            for thread in 0..1 + ms / 500 {
                recording.samples.push(Sample {
                    time: Nanos(ms * 1_000_000),
                    pid: Pid(1),
                    tid: Tid(thread as i32 + 1),
                    cpu: None,
                    weight: Nanos(1_000_000),
                    stack: None,
                    privilege: Privilege::User,
                });
            }
        }
        let moments = [100, 300, 700, 999].map(|ms| Nanos(ms * 1_000_000));
        let found = concurrency(&recording, moments.into_iter(), 1e-9).expect("samples");
        assert_eq!(found, [1.0, 1.0, 2.0, 2.0]);
        assert_eq!(concurrency(&recording, moments.into_iter(), 0.0), None);
    }
}
