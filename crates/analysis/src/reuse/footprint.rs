//! Which memory a program uses, over time.
//!
//! What for: the distinct pages of each burst, those of all bursts so far, and an estimate of the thread's working set at that
//! time. A burst records a part of it; the number of pages that two bursts have in common shows how large the whole is (capture
//! and recapture: Chapman, "Some properties of the hypergeometric distribution", Univ. California Publ. Stat. 1, 1951; variance
//! by Seber, "The Estimation of Animal Abundance", 2nd ed. 1982, section 3.2).
//! Assumptions of the estimate: both bursts, of one thread and at most 250 ms apart, draw pages from the same set, and
//! independently. If some pages are used more often than others, the estimate is too low. If the program moves through its
//! memory, it is too high, up to no common page. Below 7 common pages it is not made (Robson and Regier, Trans. Am. Fisheries
//! Soc. 93, 1964), and the pages that both bursts touched together are the lower bound.
//! What not: resident or allocated memory (`timeline` shows the resident size).

use std::collections::HashMap;

use base::{Nanos, Pid, ThreadId, Tid};
use facts::{Evidence, Metric};

use super::lru::KeySet;
use super::walk::Pages;
use estimate::interval::Z_95;

/// Bursts so near each other are taken to draw from one set of pages.
const NEAR: Nanos = Nanos(250_000_000);
/// With fewer pages in common no estimate is made.
const LEAST_COMMON: u64 = 7;

/// The memory of one burst, and of all before it.
#[derive(Clone, PartialEq, Debug)]
pub struct Footprint {
    /// When the burst began.
    pub time: Nanos,
    /// Its process.
    pub pid: Pid,
    /// Its thread.
    pub tid: Tid,
    /// Distinct 4 KB pages that it touched.
    pub small_pages: Metric,
    /// Distinct 2 MB pages that it touched.
    pub large_pages: Metric,
    /// Distinct 4 KB pages of its process that this burst or one before it touched.
    pub small_pages_so_far: Metric,
    /// The same for 2 MB pages.
    pub large_pages_so_far: Metric,
    /// 4 KB pages that the thread works on around this time, from this burst and its last one.
    pub working_set: Metric,
}

/// The footprint of these pages of bursts, in the order of their time.
pub(super) fn footprints(bursts: &[Pages]) -> Vec<Footprint> {
    let mut order: Vec<&Pages> = bursts.iter().collect();
    order.sort_by_key(|burst| burst.time);
    let mut so_far: HashMap<Pid, (KeySet, KeySet, bool)> = HashMap::new();
    let mut last: HashMap<ThreadId, &Pages> = HashMap::new();
    let mut footprints = Vec::with_capacity(order.len());
    for burst in order {
        let (small, large, partial) = so_far.entry(burst.pid).or_default();
        small.extend(&burst.small);
        large.extend(&burst.large);
        *partial |= burst.partial;
        let before = last.insert(ThreadId::new(burst.pid, burst.tid), burst);
        footprints.push(Footprint {
            time: burst.time,
            pid: burst.pid,
            tid: burst.tid,
            small_pages: pages(burst.small.len(), burst.partial),
            large_pages: pages(burst.large.len(), burst.partial),
            small_pages_so_far: pages(small.len(), *partial),
            large_pages_so_far: pages(large.len(), *partial),
            working_set: working_set(before, burst),
        });
    }
    footprints
}

fn pages(count: usize, partial: bool) -> Metric {
    let exact =
        Metric { evidence: Some(Evidence::Traced), ..Metric::counted(count as f64, "count") };
    if partial {
        return Metric { high: None, ..exact }.noted("at least: some addresses are not recorded");
    }
    exact
}

fn working_set(before: Option<&Pages>, burst: &Pages) -> Metric {
    let at_least = |pages: usize, why: &str| Metric {
        low: Some(pages as f64),
        ..Metric::unavailable("count", why)
    };
    let near = before.filter(|before| burst.time - before.time <= NEAR);
    let Some(before) = near else {
        return at_least(burst.small.len(), "no burst of this thread in the 250 ms before");
    };
    let common = burst.small.intersection(&before.small).count();
    let union = burst.small.len() + before.small.len() - common;
    if (common as u64) < LEAST_COMMON {
        return at_least(union, "this burst and the one before have fewer than 7 pages in common");
    }
    let (first, second, both) =
        (before.small.len() as f64, burst.small.len() as f64, common as f64);
    let value = (first + 1.0) * (second + 1.0) / (both + 1.0) - 1.0;
    let variance = (first + 1.0) * (second + 1.0) * (first - both) * (second - both)
        / ((both + 1.0).powi(2) * (both + 2.0));
    let half = Z_95 * variance.sqrt();
    // What was seen is certain.
    let union = union as f64;
    let value = value.max(union);
    let interval = ((value - half).max(union), value + half);
    Metric::with_interval(Evidence::Estimated, value, "count", interval, 2)
        .noted("capture and recapture: too low where some pages are used far more than others")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn burst(time: u64, pages: std::ops::Range<u64>) -> Pages {
        Pages {
            time: Nanos(time * 1_000_000),
            pid: Pid(1),
            tid: Tid(1),
            large: pages.clone().map(|page| page / 512).collect(),
            small: pages.collect(),
            partial: false,
        }
    }

    #[test]
    fn pages_add_up_over_bursts() {
        let found = footprints(&[burst(200, 50..150), burst(0, 0..100), burst(1000, 600..601)]);
        let values: Vec<_> = found
            .iter()
            .map(|one| {
                [&one.small_pages, &one.small_pages_so_far, &one.large_pages_so_far]
                    .map(|metric| metric.value.unwrap())
            })
            .collect();
        assert_eq!(values, [[100.0, 100.0, 1.0], [100.0, 150.0, 1.0], [1.0, 151.0, 2.0]]);
    }

    /// 100 and 100 pages with 50 in common: 101 x 101 / 51 - 1, variance 101^2 50^2 / (51^2 52).
    #[test]
    fn the_common_pages_tell_the_whole() {
        let found = footprints(&[burst(0, 0..100), burst(200, 50..150), burst(260, 147..200)]);
        assert_eq!((found[0].working_set.value, found[0].working_set.low), (None, Some(100.0)));
        let estimate = &found[1].working_set;
        assert!((estimate.value.unwrap() - 199.0196).abs() < 0.001);
        let half: f64 = Z_95 * (101.0f64.powi(2) * 2500.0 / (2601.0 * 52.0)).sqrt();
        assert!((estimate.high.unwrap() - 199.0196 - half).abs() < 0.001);
        assert!((estimate.low.unwrap() - (199.0196 - half).max(150.0)).abs() < 0.001);
        assert_eq!((found[2].working_set.value, found[2].working_set.low), (None, Some(150.0)));
        let far = footprints(&[burst(0, 0..100), burst(300, 0..100)]);
        assert_eq!(far[1].working_set.value, None);
    }
}
