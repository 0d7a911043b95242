//! What a burst did, by site and by part of an object.
//!
//! What for: the output of the pass over bursts. What not: what unknown outcomes amount to (`model`).

use std::collections::BTreeMap;
use std::ops::Deref;

use cachesim::{FillTally, SiteTally};
use estimate::Bounds;

use super::code_regions::CodeRegion;
use crate::objects::Part;
use crate::stack::FunctionId;
use crate::traced::SiteIndex;

/// What a burst did at one site, or with one part of an object there.
#[derive(Clone, Debug, Default)]
pub(crate) struct UnitWork {
    pub(crate) loads: u64,
    pub(crate) stores: u64,
    /// Bytes that went past the caches.
    pub(crate) streamed: u64,
    pub(crate) fills: BoundedCount,
    /// Of all of these, those in a row, which prefetchers run ahead of.
    pub(crate) followed: u64,
    pub(crate) dirtied: BoundedCount,
}

/// What a burst did at one site.
#[derive(Clone, Debug)]
pub(crate) struct SiteWork {
    pub(crate) site: SiteIndex,
    pub(crate) done: UnitWork,
    /// First touches of the lines that are followed, by the time since the burst began.
    pub(crate) firsts: Vec<(u8, u64)>,
    /// The same by part of an object, where objects are distinguished.
    pub(crate) parts: Vec<(Part, UnitWork)>,
}

impl Deref for SiteWork {
    type Target = UnitWork;

    fn deref(&self) -> &UnitWork {
        &self.done
    }
}

/// A count of lines, of which some are known to be and some may be.
#[derive(Clone, Debug, Default)]
pub(crate) struct BoundedCount {
    pub(crate) known: u64,
    /// By age, where there are any.
    pub(crate) unknown: Vec<(u8, u64)>,
}

/// What a burst did in one place.
#[derive(Clone, Debug)]
pub(crate) struct BurstWork {
    /// Position in the recording.
    pub(crate) burst: usize,
    /// What of it: a burst has one of these for each place in the code that it came to.
    pub(crate) place: CodeRegion,
    /// The function that did it.
    pub(crate) function: FunctionId,
    pub(crate) instructions: f64,
    pub(crate) records: f64,
    pub(crate) flops: f64,
    /// Core time of loops whose no-miss time was measured, seconds.
    pub(crate) no_miss_time: Bounds,
    /// Instructions in them.
    pub(crate) no_miss_instructions: f64,
    /// Cycles of all others at most, one after the other.
    pub(crate) slowest_cycles: f64,
    /// Branches that were mispredicted, likely and at most.
    pub(crate) mispredicted: f64,
    pub(crate) most_mispredicted: f64,
    /// Seconds that the likely ones waited at the ends of loops of which that was measured; and how many are elsewhere.
    pub(crate) resolved: f64,
    pub(crate) unresolved: f64,
    /// Loads whose address stands at the end of a chain of loads.
    pub(crate) chased: f64,
    /// Of the pages that its burst came to, the part that the kernel had just zeroed, 0 to 1.
    pub(crate) zeroed: Bounds,
    /// In the order of sites.
    pub(crate) sites: Vec<SiteWork>,
}

impl BurstWork {
    /// Nothing yet.
    pub(super) fn new(place: CodeRegion, function: FunctionId) -> BurstWork {
        BurstWork {
            burst: 0,
            place,
            function,
            instructions: 0.0,
            records: 0.0,
            flops: 0.0,
            no_miss_time: Bounds::default(),
            no_miss_instructions: 0.0,
            slowest_cycles: 0.0,
            mispredicted: 0.0,
            most_mispredicted: 0.0,
            resolved: 0.0,
            unresolved: 0.0,
            chased: 0.0,
            zeroed: Bounds::default(),
            sites: Vec::new(),
        }
    }

    /// Loads and stores.
    pub(super) fn accesses(&self) -> f64 {
        self.sites.iter().map(|site| (site.loads + site.stores) as f64).sum()
    }
}

impl BoundedCount {
    pub(crate) fn of(tally: &FillTally) -> BoundedCount {
        BoundedCount { known: tally.misses, unknown: listed(&tally.unknown) }
    }

    /// All, where each that may be is one.
    pub(crate) fn most(&self) -> u64 {
        self.known + self.unknown.iter().map(|(_, count)| count).sum::<u64>()
    }

    fn add(&mut self, tally: &FillTally) {
        self.known += tally.misses;
        for (age, count) in listed(&tally.unknown) {
            match self.unknown.binary_search_by_key(&age, |(known, _)| *known) {
                Ok(at) => self.unknown[at].1 += count,
                Err(at) => self.unknown.insert(at, (age, count)),
            }
        }
    }
}

impl UnitWork {
    pub(super) fn add(&mut self, tally: &SiteTally) {
        self.loads += tally.loads;
        self.stores += tally.stores + tally.streaming_stores;
        self.streamed += tally.streaming_bytes;
        self.fills.add(&tally.fills);
        self.followed += tally.followed;
        self.dirtied.add(&tally.dirtied);
    }
}

/// Counts with their positions, where there are any.
pub(crate) fn listed(counts: &[u64]) -> Vec<(u8, u64)> {
    (0u8..).zip(counts.iter().copied()).filter(|(_, count)| *count > 0).collect()
}

/// Where the works of a site are: number of the burst's work, position in it.
pub(super) type WorksBySite = BTreeMap<SiteIndex, Vec<(usize, usize)>>;

/// The same on a part of an object, with the position in the site's work.
pub(super) type WorksByPart = BTreeMap<(SiteIndex, Part), Vec<(usize, usize, usize)>>;

pub(super) fn works_by_site(bursts: &[BurstWork]) -> WorksBySite {
    let mut works = WorksBySite::new();
    for (number, burst) in bursts.iter().enumerate() {
        for (position, site) in burst.sites.iter().enumerate() {
            works.entry(site.site).or_default().push((number, position));
        }
    }
    works
}

pub(super) fn works_by_part(bursts: &[BurstWork]) -> WorksByPart {
    let mut works = WorksByPart::new();
    for (number, burst) in bursts.iter().enumerate() {
        for (position, site) in burst.sites.iter().enumerate() {
            for (at, (part, _)) in site.parts.iter().enumerate() {
                works.entry((site.site, *part)).or_default().push((number, position, at));
            }
        }
    }
    works
}
