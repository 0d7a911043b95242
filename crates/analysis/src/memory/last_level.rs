//! The capacity of the last-level cache that gives the model the measured latency ladder of the machine.
//!
//! What for: a program does not get the size that CPUID reports: neighbours and partitions take a part. The ladder shows what it
//! gets (`machine::ladder`), but the size up to which a chase stays on the level's plateau is not its capacity: lines fall on
//! sets by chance, so some sets are full, and miss, well before the cache is. So the capacity is fitted: with it, a chase in the
//! model misses as often as the ladder shows. What not: the first two levels, whose sets follow from virtual page offsets, or
//! nearly so.
//!
//! Model of the chase: it visits each line once per round, in a fixed random order, so in a set with more lines than ways all miss
//! (LRU). A hash selects sets, so the other lines of a line's set are Poisson distributed with the mean
//! `ways × size / capacity`.
//!
//! Assumptions: between the two plateaus the latency is a mean of both, weighted by the miss ratio. Other replacement than LRU
//! makes the slope flatter and hardly moves its middle. Where the latency rises steadily beyond the second level, as on a busy
//! host, the level's own latency is the least one there.

use facts::host::{Calibration, LatencyPoint};

/// Steps per factor of two of the capacities that are tried.
const STEPS: f64 = 8.0;
/// With fewer points beyond the second level, the plateau is all there is.
const FEWEST: usize = 4;
/// Points beyond this multiple of the claimed size show page walks.
const FARTHEST: u64 = 2;

/// Bytes; `None` where the level was not measured. Never below the size that a chase fits in, nor above `claimed` where the
/// system claims more than that.
pub(super) fn capacity(calibration: &Calibration, ways: u32, claimed: u64) -> Option<f64> {
    let level = calibration.effective_caches.iter().find(|cache| cache.level == 3)?;
    let fits = level.bytes.value.filter(|bytes| *bytes >= 1.0)?;
    // Large pages have fewer walks in the way; those of 1 GiB were chased in few sizes.
    let pages = calibration.ladder.iter().map(|point| point.page_bytes);
    let page = pages.filter(|page| *page < 1 << 30).max();
    let beyond = |point: &&LatencyPoint| {
        Some(point.page_bytes) == page
            && point.bytes as f64 >= fits
            && point.bytes <= FARTHEST * claimed.max(fits as u64)
    };
    let latency = |point: &LatencyPoint| Some((point.bytes as f64, point.latency.value?));
    let points: Vec<(f64, f64)> =
        calibration.ladder.iter().filter(beyond).filter_map(latency).collect();
    if points.len() < FEWEST {
        return Some(fits);
    }
    let least = points.iter().map(|point| point.1).min_by(f64::total_cmp);
    let ends = level
        .latency
        .value
        .or(least)
        .zip(calibration.dram_latency.as_ref().and_then(|one| one.value));
    let Some((near, far)) = ends.filter(|(near, far)| far > near) else { return Some(fits) };
    let points = points
        .into_iter()
        .map(|(size, latency)| (size, ((latency - near) / (far - near)).clamp(0.0, 1.0)));
    let points: Vec<(f64, f64)> = points.collect();
    let off = |capacity: f64| -> f64 {
        let one = |(size, missed): &(f64, f64)| {
            (misses(f64::from(ways) * size / capacity, ways) - missed).powi(2)
        };
        points.iter().map(one).sum()
    };
    let most = ((claimed as f64 / fits).log2().max(0.0) * STEPS).floor() as u32;
    let tried = (0..=most).map(|step| fits * (f64::from(step) / STEPS).exp2());
    tried.min_by(|a, b| off(*a).total_cmp(&off(*b)))
}

/// The share of lines whose set has more than its ways, with this mean number of others in it: the probability that a Poisson
/// number is at least `ways`.
fn misses(mean: f64, ways: u32) -> f64 {
    let mut term = (-mean).exp();
    let mut below = 0.0;
    for others in 0..ways {
        below += term;
        term *= mean / f64::from(others + 1);
    }
    (1.0 - below).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use facts::host::EffectiveCache;
    use facts::{Evidence, Metric};

    use super::*;

    fn metric(value: f64, unit: &str) -> Metric {
        Metric::with_interval(Evidence::Calibrated, value, unit, (value, value), 1)
    }

    /// A machine whose chase over each size misses as often as `missed` says; 10 ns near, 110 ns far.
    fn machine(fits: u64, missed: impl Fn(f64) -> f64) -> Calibration {
        let sizes = (0..14).map(|step| (1u64 << 20) << (step / 2) | (step % 2) << (19 + step / 2));
        let point = |bytes: u64| LatencyPoint {
            bytes,
            page_bytes: 2 << 20,
            latency: metric(10.0 + 100.0 * missed(bytes as f64), "ns"),
        };
        Calibration {
            ladder: sizes.map(point).collect(),
            effective_caches: vec![EffectiveCache {
                level: 3,
                bytes: metric(fits as f64, "bytes"),
                latency: metric(10.0, "ns"),
            }],
            dram_latency: Some(metric(110.0, "ns")),
            ..Calibration::default()
        }
    }

    /// Poisson, by hand: with a mean of 1, 1 - (1 + 1) / e.
    #[test]
    fn sets_overflow_by_chance() {
        assert!((misses(1.0, 2) - 0.264_241).abs() < 1e-6);
        assert!(misses(4.0, 16) < 1e-4 && misses(32.0, 16) > 0.998);
    }

    #[test]
    fn the_capacity_is_that_whose_ladder_was_measured() {
        let mib = (1u64 << 20) as f64;
        let of_8 = machine(4 << 20, |size| misses(16.0 * size / (8.0 * mib), 16));
        let found = capacity(&of_8, 16, 32 << 20).expect("a capacity");
        assert!((found / mib - 8.0).abs() < 0.5, "{}", found / mib);
        // Not above what the system claims, nor below what fits.
        assert!(capacity(&of_8, 16, 6 << 20).expect("one") <= 6.0 * mib);
        let sharp = machine(4 << 20, |size| if size > 4.0 * mib { 1.0 } else { 0.0 });
        let found = capacity(&sharp, 16, 32 << 20).expect("one") / mib;
        assert!((4.0..6.0).contains(&found), "{found}");
    }

    /// A busy host: no plateau beyond the second level.
    #[test]
    fn without_a_plateau_the_least_latency_is_the_level_s() {
        let mib = (1u64 << 20) as f64;
        let mut steady = machine(1 << 20, |size| misses(20.0 * size / (4.0 * mib), 20));
        steady.effective_caches[0].latency = Metric::unavailable("ns", "no plateau");
        let found = capacity(&steady, 20, 300 << 20).expect("a capacity") / mib;
        assert!((found - 4.0).abs() < 0.5, "{found}");
        steady.dram_latency = None;
        assert_eq!(capacity(&steady, 20, 300 << 20), Some(mib));
    }

    #[test]
    fn without_a_ladder_the_plateau_is_taken() {
        let mut few = machine(4 << 20, |_| 0.5);
        few.ladder.truncate(3);
        assert_eq!(capacity(&few, 16, 32 << 20), Some((4 << 20) as f64));
        few.effective_caches.clear();
        assert_eq!(capacity(&few, 16, 32 << 20), None);
    }
}
