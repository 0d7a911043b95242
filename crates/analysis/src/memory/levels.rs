//! Hit levels of loads, and the cache sizes of the model.
//!
//! What for: shares of loads by hit level, simulated. What not: how long they took (`latency`).
//!
//! Sizes: the first two levels as the system describes them; the last one as the latency ladder measured it, because a virtual
//! machine gets another part of a shared cache than its CPUID reports. A last level that several CPUs share is divided by the
//! mean number of the program's threads that ran at a time.
//!
//! Assumptions: threads' data are disjoint, so that each has its part of the shared level. The program's pages are at random
//! physical addresses, in pieces of 2 MiB where most of its memory is in huge pages, else of 4 KiB.

use base::Bytes;
use cachesim::{ColdLines, Config, Frames, Geometry, PageSize, TlbConfig, TlbGeometry};
use estimate::Bounds;
use facts::Metric;
use facts::host::CacheKind;

use super::model::Level;
use super::quantity::Quantity;
use super::rows::none_of;
use super::work::BurstWork;
use super::{Memory, last_level};
use crate::profile::Profile;
use crate::reuse::TlbSizes;
use crate::summary::huge_page_share;
use crate::traced::SiteIndex;

/// Ways of the second-level TLB: 12, as in Intel's since Haswell and AMD's Zen.
pub(super) const STLB_WAYS: u32 = 12;
/// Assumed for a last level of unknown associativity.
const WAYS: u32 = 16;
/// More are not kept apart in the model.
const MOST_WAYS: u32 = cachesim::DEPTHS as u32;
/// Common values of current processors, used where the system reports none.
const USUAL: [(u64, u32); 3] = [(32 << 10, 8), (1 << 20, 16), (16 << 20, WAYS)];

/// Sizes of the model.
pub(crate) struct Sizes {
    levels: [Geometry; 3],
    /// Pages that the program's memory is mapped with, mostly.
    pub(crate) page: PageSize,
    tlb: TlbSizes,
    pub(crate) notes: Vec<String>,
}

impl Sizes {
    pub(crate) fn of(profile: &Profile<'_>) -> Sizes {
        let run = &profile.recording.run;
        let mut notes = Vec::new();
        let cache_of = |level: u32| {
            let data = |kind: CacheKind| kind != CacheKind::Instruction;
            run.host.caches.iter().find(|cache| cache.level == level && data(cache.kind))
        };
        let levels = [1u32, 2, 3].map(|level| {
            let (bytes, ways) = USUAL[level as usize - 1];
            let (bytes, ways) = cache_of(level).map_or((bytes, ways), |cache| {
                (cache.bytes, cache.ways.unwrap_or(ways).clamp(1, MOST_WAYS))
            });
            Geometry { bytes: Bytes(bytes), ways, line_bytes: x86::LINE_BYTES }
        });
        if run.host.caches.is_empty() {
            notes.push(
                "the system does not describe its caches: usual sizes are assumed".to_owned(),
            );
        }
        let huge = huge_page_share(profile).value.is_some_and(|percent| percent > 50.0);
        let page = if huge { PageSize::Huge } else { PageSize::Small };
        let mut sizes = Sizes { levels, page, tlb: TlbSizes::of(&run.host), notes };
        sizes.measure(profile);
        sizes
    }

    /// The last level as it was measured, and this program's part of it.
    fn measure(&mut self, profile: &Profile<'_>) {
        let calibration = profile.calibration();
        let Geometry { bytes: claimed, ways, .. } = self.levels[2];
        match calibration.and_then(|found| last_level::capacity(found, ways, claimed.0)) {
            Some(bytes) => self.levels[2].bytes = Bytes(bytes as u64),
            None => self.notes.push(
                "the size of the last-level cache was not measured here: the size that the system reports is used".to_owned(),
            ),
        }
        let elapsed = profile.observed().seconds();
        let cpu = profile.counted_cpu_seconds().unwrap_or(0.0);
        let running = if elapsed > 0.0 { cpu / elapsed } else { 1.0 };
        let shared = if running > 1.2 { running } else { 1.0 };
        let bytes = (self.levels[2].bytes.0 as f64 / shared) as u64;
        // Even where the last level keeps nothing, the second one does.
        self.levels[2].bytes = Bytes(bytes.max(self.levels[1].bytes.0));
    }

    pub(crate) fn config(&self) -> Config {
        let [l1, l2, llc] = self.levels;
        Config {
            l1,
            l2: Some(l2),
            llc: Some(llc),
            cold: ColdLines::Unknown,
            frames: Frames::Scattered(self.page),
        }
    }

    /// As `reuse` has them.
    pub(crate) fn tlb(&self) -> TlbConfig {
        let sizes = self.tlb;
        let second = sizes.second as u32 / STLB_WAYS * STLB_WAYS;
        let first = |entries: usize| TlbGeometry { entries: entries as u32, ways: 4 };
        TlbConfig {
            small: first(sizes.first_small),
            huge: Some(first(sizes.first_large)),
            second: Some(TlbGeometry { entries: second, ways: STLB_WAYS }),
            cold: ColdLines::Unknown,
        }
    }

    pub(crate) fn levels(&self) -> [Level; 3] {
        self.levels.map(|level| Level { bytes: level.bytes.0 as f64, ways: level.ways as usize })
    }
}

/// Shares of loads, percent.
#[derive(Clone, PartialEq, Debug)]
pub struct LevelShares {
    /// First level.
    pub l1: Metric,
    /// Second level.
    pub l2: Metric,
    /// Last level.
    pub l3: Metric,
    /// Memory.
    pub dram: Metric,
}

impl LevelShares {
    pub(crate) fn unavailable(why: &str) -> LevelShares {
        let none = || Metric::unavailable("percent", why);
        LevelShares { l1: none(), l2: none(), l3: none(), dram: none() }
    }
}

impl Memory<'_> {
    /// Hit levels of the loads of the whole program.
    #[must_use]
    pub fn all_levels(&self) -> LevelShares {
        self.levels(self.passed.sites.keys().copied())
    }

    /// Hit levels of the loads of some sites.
    pub(super) fn levels(&self, sites: impl Iterator<Item = SiteIndex>) -> LevelShares {
        self.levels_of(sites.map(|site| {
            (site, self.works_of(site).map(|(number, burst, work)| (number, burst, work.loads)))
        }))
    }

    /// Hit levels of some loads of some sites: of each site the numbers of bursts, these, and how many loads.
    pub(super) fn levels_of<'b, W: Iterator<Item = (usize, &'b BurstWork, u64)>>(
        &self,
        sites: impl Iterator<Item = (SiteIndex, W)>,
    ) -> LevelShares {
        if let Err(why) = self.available() {
            return LevelShares::unavailable(why);
        }
        let bursts = self.passed.bursts.len();
        let mut hit_levels: [Quantity; 4] = std::array::from_fn(|_| Quantity::none(bursts));
        let mut loads = Quantity::none(bursts);
        for (site, works) in sites {
            for (number, burst, executed) in works.filter(|(_, _, executed)| *executed > 0) {
                let outcome = self.model.hit_levels(burst.place, site);
                loads.add(number, Bounds::exactly(executed as f64));
                let parts = [outcome.l1, outcome.l2, outcome.l3, outcome.dram];
                for (quantity, part) in hit_levels.iter_mut().zip(parts) {
                    quantity.add(number, part.times(executed as f64));
                }
            }
        }
        let [l1, l2, l3, dram] = hit_levels.map(|part| self.share(&part, &loads));
        LevelShares { l1, l2, l3, dram }
    }

    /// A part of a whole, percent.
    fn share(&self, part: &Quantity, whole: &Quantity) -> Metric {
        let share = self.strata.percent(part, whole, "no load was traced");
        match (share.value, share.high) {
            // How little was observed says how sure it is.
            (Some(0.0), Some(0.0)) => share.noted(&none_of(whole, "load", "loads").1),
            _ => share,
        }
    }
}
