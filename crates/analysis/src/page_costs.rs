//! What pages cost: getting a fresh one at the time of a run, and walking the page table.
//!
//! What for: the one place that says what memory in large pages takes and saves *here*. What not: whether a program would gain by
//! it (`findings`); measuring (`calibrate`).
//!
//! A large page needs 2 MiB in one piece. Where memory is fragmented or full of cached files, the kernel moves pages out of the
//! way first, and a hypervisor may have to find memory that the guest never touched. So the cost is that of a reading just
//! before the run, and of the calibration only where there was none. On an AMD Zen 4 virtual machine of 23 GiB full of cached
//! files, a page of 2 MiB took 4.7 ms, and 0.18 ms a minute later.

use estimate::interval::mean_and_half;
use facts::host::Calibration;
use facts::{Evidence, Metric, Run};

/// Bytes of pages, and small ones in a large one.
const SMALL: u64 = 4 << 10;
const LARGE: u64 = 2 << 20;
const PAGES: f64 = (LARGE / SMALL) as f64;
/// Values of a reading that are believed, nanoseconds: none is quicker, nor slower.
const PLAUSIBLE: std::ops::Range<f64> = 1.0..1e10;
/// More values than any reading has are not looked at.
const MOST: usize = 4096;
/// Walks that a core makes at a time, at most: AMD since Zen 3 (optimization manuals).
const WALKERS: f64 = 6.0;

/// Cost of a fresh page when a run began.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct PageCosts {
    /// Of 4 KiB, nanoseconds.
    pub small: Option<Metric>,
    /// Of 2 MiB, nanoseconds.
    pub large: Option<Metric>,
    /// Large pages that the reading saw; 0 without one.
    pub seen: f64,
    /// Free blocks of 2 MiB before it.
    pub free: Option<f64>,
}

impl PageCosts {
    /// Of this run.
    #[must_use]
    pub fn of(run: &Run) -> PageCosts {
        let stored = |cost: fn(&Calibration) -> Option<&Metric>| {
            run.calibration.as_ref().and_then(cost).cloned()
        };
        let (small, large) =
            (stored(|c| c.page_fault_4k.as_ref()), stored(|c| c.page_fault_2m.as_ref()));
        let calibrated = PageCosts { small, large, ..PageCosts::default() };
        let Some(reading) = &run.page_reading else { return calibrated };
        let Some(now) = mean(&reading.large, "of 2 MiB") else { return calibrated };
        let free = reading.free_large.map(|blocks| blocks as f64);
        let seen = reading.large.len().min(MOST) as f64;
        // Where the kernel gave small ones throughout there are none to be had.
        let large = (f64::from(reading.refused) < seen).then_some(now);
        PageCosts {
            small: mean(&reading.small, "of 4 KiB").or(calibrated.small),
            large,
            seen,
            free,
        }
    }

    /// A large page over the small ones that it replaces; above 1 it costs time to get it.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        let ratio = self.large.as_ref()?.value? / (PAGES * self.small.as_ref()?.value?);
        ratio.is_finite().then_some(ratio)
    }

    /// The share of so many large pages that are beyond those that were free and those that the reading saw.
    #[must_use]
    pub fn beyond(&self, pages: f64) -> f64 {
        match self.free {
            Some(free) if pages > 0.0 => ((pages - free.max(self.seen)) / pages).clamp(0.0, 1.0),
            _ => 0.0,
        }
    }
}

/// The mean with its interval: large pages are paid for one by one, the slow ones too.
fn mean(values: &[f64], what: &str) -> Option<Metric> {
    let values: Vec<f64> =
        values.iter().copied().take(MOST).filter(|one| PLAUSIBLE.contains(one)).collect();
    let (mean, half) = mean_and_half(&values, 0.0)?;
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let interval = ((mean - half).max(least), mean + half);
    let metric =
        Metric::with_interval(Evidence::Calibrated, mean, "ns", interval, values.len() as u64);
    Some(metric.noted(&format!("of pages {what} just before this run")))
}

/// Latency with small pages and with large ones, at the measured size nearest to so much memory; far beyond the caches without a
/// size. `None` where no size has both.
pub(crate) fn latencies(calibration: &Calibration, bytes: Option<f64>) -> Option<[&Metric; 2]> {
    let far = |size: u64| match bytes {
        Some(bytes) => -(size as f64 / bytes.max(1.0)).ln().abs(),
        None => size as f64,
    };
    let of = |page: u64| calibration.ladder.iter().filter(move |point| point.page_bytes == page);
    let large = of(LARGE).max_by(|a, b| far(a.bytes).total_cmp(&far(b.bytes)))?;
    let small = of(SMALL).find(|point| point.bytes == large.bytes)?;
    Some([&small.latency, &large.latency])
}

/// What a page walk adds to a load in so much memory: the latency with small pages less that with large ones. `None` where there
/// is none.
#[must_use]
pub fn walk_cost(calibration: &Calibration, bytes: Option<f64>) -> Option<Metric> {
    let [small, large] = latencies(calibration, bytes)?;
    let difference = small.value? - large.value?;
    let interval = ((small.low? - large.high?).max(0.0), small.high? - large.low?);
    (difference > 0.0)
        .then(|| Metric::with_interval(Evidence::Calibrated, difference, "ns", interval, 1))
}

/// The share of the CPU time in which translations are looked up: so many walks, each at the cost of one of a chain. Walks may
/// go on at the same time, so the low end is that of as many as a core has walkers. `huge` percent of the memory need none.
///
/// # Errors
/// What is not known.
pub fn walk_time(
    walks: &Metric,
    cost: Option<&Metric>,
    cpu_time: &Metric,
    huge: &Metric,
) -> Result<Metric, &'static str> {
    let cost = cost.ok_or("the cost of a page walk is not known: run `fathom machine`")?;
    let percent = |walks: Option<f64>, cost: Option<f64>, time: Option<f64>| {
        let time = time.filter(|time| *time > 0.0)?;
        Some((walks? * cost? * 1e-9 / time * 100.0).clamp(0.0, 100.0))
    };
    let value =
        percent(walks.value, cost.value, cpu_time.value).ok_or("page walks are not known")?;
    let low = percent(walks.low, cost.low, cpu_time.high).unwrap_or(0.0);
    let high = percent(walks.high, cost.high, cpu_time.low).unwrap_or(100.0);
    let small = 1.0 - huge.value.unwrap_or(0.0).clamp(0.0, 100.0) / 100.0;
    let interval = ((low * small / WALKERS).min(value), high.max(value));
    Ok(Metric::with_interval(Evidence::Estimated, value, "percent", interval, walks.samples))
}

#[cfg(test)]
mod tests {
    use facts::host::{LatencyPoint, PageReading};

    use super::*;

    fn run(small: &[f64], large: &[f64], refused: u32, free: Option<u64>) -> Run {
        let metric =
            |value| Metric::with_interval(Evidence::Calibrated, value, "ns", (value, value), 9);
        let calibration = Calibration {
            page_fault_4k: Some(metric(700.0)),
            page_fault_2m: Some(metric(180_000.0)),
            ..Calibration::default()
        };
        let (small, large) = (small.to_vec(), large.to_vec());
        let reading = PageReading { small, large, refused, free_large: free };
        Run { calibration: Some(calibration), page_reading: Some(reading), ..Run::default() }
    }

    #[test]
    fn a_reading_says_what_pages_cost_and_the_calibration_only_without_one() {
        let dear = PageCosts::of(&run(&[700.0, 800.0, 750.0], &[4.4e6, 4.8e6, 4.9e6], 0, Some(43)));
        assert!((dear.large.as_ref().and_then(|one| one.value).expect("mean") - 4.7e6).abs() < 1.0);
        assert!((dear.ratio().expect("both") - 4.7e6 / (512.0 * 750.0)).abs() < 1e-9);
        // Of 100, 43 were free, and 57 are not.
        assert_eq!((dear.beyond(100.0), dear.beyond(40.0), dear.seen), (0.57, 0.0, 3.0));
        let without = Run { page_reading: None, ..run(&[], &[], 0, None) };
        let calibrated = PageCosts::of(&without);
        assert_eq!(calibrated.large.as_ref().and_then(|one| one.value), Some(180_000.0));
        assert_eq!((calibrated.seen, calibrated.beyond(100.0)), (0.0, 0.0));
        // None came large.
        assert_eq!(PageCosts::of(&run(&[700.0; 3], &[4e5; 8], 8, Some(0))).large, None);
        assert!(PageCosts::of(&run(&[700.0; 3], &[4e5; 8], 7, Some(0))).large.is_some());
    }

    #[test]
    fn a_damaged_reading_is_none() {
        for large in [&[][..], &[1e6], &[f64::NAN, f64::INFINITY, -1.0], &[0.0; 9]] {
            let costs = PageCosts::of(&run(&[f64::NAN], large, u32::MAX, Some(u64::MAX)));
            assert_eq!(costs.large.and_then(|one| one.value), Some(180_000.0), "{large:?}");
            assert_eq!(costs.small.and_then(|one| one.value), Some(700.0));
        }
    }

    #[test]
    fn a_walk_costs_what_the_ladder_shows_at_the_size_of_the_program() {
        let point = |bytes, page_bytes, nanos| LatencyPoint {
            bytes,
            page_bytes,
            latency: Metric::with_interval(
                Evidence::Calibrated,
                nanos,
                "ns",
                (nanos - 1.0, nanos + 1.0),
                9,
            ),
        };
        let ladder = vec![
            point(64 << 20, LARGE, 50.0),
            point(512 << 20, LARGE, 100.0),
            point(512 << 20, 1 << 30, 99.0),
            point(64 << 20, SMALL, 60.0),
            point(512 << 20, SMALL, 140.0),
        ];
        let mut calibration = Calibration { ladder, ..Calibration::default() };
        let cost = |calibration: &Calibration, bytes| {
            walk_cost(calibration, bytes)
                .and_then(|cost| Some((cost.value?, cost.low?, cost.high?)))
        };
        assert_eq!(cost(&calibration, None), Some((40.0, 38.0, 42.0)));
        assert_eq!(cost(&calibration, Some(80e6)), Some((10.0, 8.0, 12.0)));
        assert_eq!(cost(&calibration, Some(9e9)), Some((40.0, 38.0, 42.0)));
        let walks = Metric::counted(1e7, "count");
        let (time, no_huge) = (Metric::counted(1.0, "s"), Metric::counted(0.0, "percent"));
        let far = walk_cost(&calibration, None);
        let share = walk_time(&walks, far.as_ref(), &time, &no_huge).expect("all is known");
        assert_eq!(share.value, Some(40.0));
        assert!((share.high.expect("interval") - 42.0).abs() < 1e-9);
        assert!((share.low.expect("interval") - 38.0 / 6.0).abs() < 1e-9);
        // All memory in large pages: perhaps none.
        let huge = Metric::counted(100.0, "percent");
        assert_eq!(walk_time(&walks, far.as_ref(), &time, &huge).expect("known").low, Some(0.0));
        let never = Metric::unavailable("count", "not traced");
        assert!(walk_time(&never, far.as_ref(), &time, &no_huge).is_err());
        assert!(walk_time(&walks, None, &time, &no_huge).is_err());
        calibration.ladder.truncate(3);
        assert_eq!(cost(&calibration, None), None);
    }
}
