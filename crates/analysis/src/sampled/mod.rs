//! Memory accesses that the hardware sampled: how long they took, where their data came from, which lines threads share.
//! And loops in branch stacks.
//!
//! What for: where a recording has such samples, they answer what bursts answer elsewhere, by the same keys. Shares are of the
//! sampled accesses, each with the weight that its event gives it. What not: how many accesses the program executed (a
//! sample of loads above a threshold does not tell), traffic, anything of bursts.
//!
//! Assumptions: samples are independent of each other. Latencies are in cycles of the core that loaded, as the hardware counts
//! them; a share that lacks a part which the hardware did not report is of the samples that have it.
//!
//! Intervals: Wilson's for shares, with Kish's effective count; the mean's is Cochran's ratio with samples as clusters;
//! Woodruff's for quantiles (J. Am. Stat. Assoc. 47 (1952) 635-646).

mod distribution;
mod lines;
mod loops;

use std::collections::BTreeMap;

use base::RemoteAddr;
use facts::{AccessKind, DataSource, Evidence, MemorySample, Metric, Snoop, Translation};

use self::distribution::Distribution;
use crate::hotspots::{Key, RowKey};
use crate::memory::Latency;
use crate::objects::{Grouping, Objects, Part};
use crate::profile::Profile;
use crate::selection::Selection;
use crate::stack::LocationId;
use crate::threads::ThreadIndex;
use crate::weight::Weight;
use estimate::interval::{ratio_interval, wilson};

pub use self::lines::{SampledLine, SampledLines, SampledThread};
pub use self::loops::{SampledLoop, sampled_loops};

/// Why there is no latency.
const NOT_TIMED: &str = "no sampled load has a latency";
/// Why there are no levels.
const NO_SOURCE: &str = "no sampled load says where its data came from";
/// Why there is nothing of translations.
const NO_TRANSLATION: &str = "no sampled load says how its address was translated";
/// Why there is nothing of pages.
const NO_PAGE: &str = "no sampled load tells the size of its page: perf records it with --data-page-size, from Linux 5.11 on";
/// Base pages are no larger on any processor; huge pages are (of Arm with base pages of 64 KiB, from 512 MiB on).
const LARGEST_BASE_PAGE: u64 = 64 << 10;
/// Why there is nothing of other caches.
const NO_SNOOP: &str = "no sampled load says what other caches had";

/// One that is selected.
#[derive(Clone, Copy)]
struct Selected<'a> {
    sample: &'a MemorySample,
    thread: ThreadIndex,
    place: LocationId,
}

/// The sampled accesses of a selection.
pub struct SampledAccesses<'a> {
    profile: &'a Profile<'a>,
    seen: Vec<Selected<'a>>,
}

/// Where the data of loads came from, percent.
#[derive(Clone, PartialEq, Debug)]
pub struct SampledLevels {
    /// The first-level cache.
    pub l1: Metric,
    /// A line on its way.
    pub fill_buffer: Metric,
    /// The second-level cache.
    pub l2: Metric,
    /// The third-level cache, or one of another core of the node.
    pub l3: Metric,
    /// A cache of another node or socket.
    pub remote_cache: Metric,
    /// Memory, whichever.
    pub dram: Metric,
    /// Memory of another node.
    pub remote_dram: Metric,
    /// A modified line of another core (HITM).
    pub modified: Metric,
    /// After a walk of the page table.
    pub page_walks: Metric,
    /// In a huge page.
    pub huge_pages: Metric,
}

/// Sampled accesses by code or object.
#[derive(Clone, PartialEq, Debug)]
pub struct SampledRow {
    /// What it is.
    pub key: RowKey,
    /// The place in it with the most samples.
    pub place: LocationId,
    /// Samples of loads.
    pub loads: u64,
    /// Samples of stores.
    pub stores: u64,
    /// Share of all sampled loads, percent.
    pub load_share: Metric,
    /// Share of all sampled stores, percent.
    pub store_share: Metric,
    /// Share of the latency of all sampled loads, percent.
    pub time_share: Metric,
    /// Cycles.
    pub latency: Result<Latency, String>,
    /// Where its loads' data came from.
    pub levels: SampledLevels,
}

/// Whether a recording has any.
#[must_use]
pub fn has_sampled_accesses(profile: &Profile<'_>) -> bool {
    !profile.recording.memory_samples.is_empty()
}

impl<'a> SampledAccesses<'a> {
    /// Those that are selected. An object is looked for only if some were chosen.
    #[must_use]
    pub fn new(
        profile: &'a Profile<'a>,
        selection: &Selection,
        objects: &Objects,
    ) -> SampledAccesses<'a> {
        let seen = profile.recording.memory_samples.iter().filter_map(|sample| {
            let thread = profile.threads.find(sample.pid, sample.tid)?;
            let stack = sample.stack.and_then(|id| profile.stacks.find(id));
            let place = profile.stacks.innermost(stack);
            let of_object = || {
                let address = sample.address.unwrap_or(RemoteAddr(0));
                selection.has_object(objects.at(sample.pid, address, sample.time).0)
            };
            let chosen = selection.has(thread, sample.time)
                && selection.has_place(place)
                && (!selection.chooses_objects() || of_object());
            chosen.then_some(Selected { sample, thread, place })
        });
        SampledAccesses { profile, seen: seen.collect() }
    }

    /// How many.
    #[must_use]
    pub fn count(&self) -> usize {
        self.seen.len()
    }

    /// The latency of the sampled loads, cycles.
    ///
    /// # Errors
    /// Why it is not known.
    pub fn latency(&self) -> Result<Latency, String> {
        let mut sums = Sums::default();
        self.seen.iter().for_each(|seen| sums.add(seen));
        sums.latency()
    }

    /// Where their data came from.
    #[must_use]
    pub fn levels(&self) -> SampledLevels {
        let mut sums = Sums::default();
        self.seen.iter().for_each(|seen| sums.add(seen));
        sums.levels()
    }

    /// Rows by the grouping's keys, those with the largest share of the latency first, then those with the most samples.
    #[must_use]
    pub fn rows(&self, grouping: &Grouping<'_>) -> Vec<SampledRow> {
        let mut groups: BTreeMap<RowKey, Sums> = BTreeMap::new();
        let mut all = Sums::default();
        for seen in &self.seen {
            all.add(seen);
            let Some(key) = self.key(grouping, seen) else { continue };
            groups.entry(key).or_default().add(seen);
        }
        let mut rows: Vec<SampledRow> =
            groups.into_iter().map(|(key, sums)| sums.row(key, &all)).collect();
        rows.sort_by(|a, b| {
            let order = |row: &SampledRow| (row.time_share.value, row.loads + row.stores);
            order(b).partial_cmp(&order(a)).unwrap_or(std::cmp::Ordering::Equal)
        });
        rows
    }

    fn key(&self, grouping: &Grouping<'_>, seen: &Selected<'_>) -> Option<RowKey> {
        let of_thread = RowKey::of_thread(grouping.keys, self.profile, seen.thread);
        let by_object = grouping.keys.iter().any(|key| Key::OF_OBJECTS.contains(key));
        let key = match seen.sample.address {
            Some(address) if by_object => {
                grouping.row_at(seen.place, (seen.sample.pid, address), seen.sample.time)
            }
            _ => grouping.key(seen.place, Part::whole(Objects::unknown())),
        };
        Some(key?.with_thread_of(of_thread))
    }
}

/// Sums over samples.
#[derive(Default)]
struct Sums {
    loads: Weight,
    stores: Weight,
    latency: Distribution,
    /// Loads with a known source, and of these by source.
    sourced: Weight,
    by_source: BTreeMap<DataSource, Weight>,
    snooped: Weight,
    modified: Weight,
    translated: Weight,
    walked: Weight,
    /// Loads that tell the size of their page, and of these the larger ones.
    paged: Weight,
    huge: Weight,
    places: BTreeMap<LocationId, u64>,
}

impl Sums {
    fn add(&mut self, seen: &Selected<'_>) {
        let sample = seen.sample;
        *self.places.entry(seen.place).or_default() += 1;
        if matches!(sample.access, AccessKind::Store | AccessKind::LoadStore) {
            self.stores.add(sample.weight);
        }
        if !matches!(sample.access, AccessKind::Load | AccessKind::LoadStore) {
            return;
        }
        self.loads.add(sample.weight);
        if let Some(cycles) = sample.latency {
            self.latency.add(f64::from(cycles), sample.weight as f64);
        }
        if let Some(source) = sample.from {
            self.sourced.add(sample.weight);
            self.by_source.entry(source).or_default().add(sample.weight);
        }
        // A neighbour that gave the line does not tell whether it had modified it.
        if let Some(snoop) = sample.snoop.filter(|snoop| *snoop != Snoop::Peer) {
            self.snooped.add(sample.weight);
            if snoop == Snoop::Modified {
                self.modified.add(sample.weight);
            }
        }
        if let Some(page) = sample.page {
            self.paged.add(sample.weight);
            if page.0 > LARGEST_BASE_PAGE {
                self.huge.add(sample.weight);
            }
        }
        if let Some(translation) = sample.translation {
            self.translated.add(sample.weight);
            if matches!(translation, Translation::Walk | Translation::Fault) {
                self.walked.add(sample.weight);
            }
        }
    }

    fn latency(&self) -> Result<Latency, String> {
        let covered = share(&self.latency.weight, &self.loads, NOT_TIMED);
        self.latency.latency(covered).ok_or_else(|| NOT_TIMED.to_owned())
    }

    fn levels(&self) -> SampledLevels {
        let of = |sources: &[DataSource]| {
            let mut part = Weight::default();
            for source in sources {
                part.merge(self.by_source.get(source).unwrap_or(&Weight::default()));
            }
            share(&part, &self.sourced, NO_SOURCE)
        };
        SampledLevels {
            l1: of(&[DataSource::L1]),
            fill_buffer: of(&[DataSource::FillBuffer]),
            l2: of(&[DataSource::L2]),
            l3: of(&[DataSource::L3, DataSource::L4]),
            remote_cache: of(&[DataSource::RemoteCache]),
            dram: of(&[
                DataSource::Dram,
                DataSource::RemoteDram,
                DataSource::Persistent,
                DataSource::Cxl,
            ]),
            remote_dram: of(&[DataSource::RemoteDram]),
            modified: share(&self.modified, &self.snooped, NO_SNOOP),
            page_walks: share(&self.walked, &self.translated, NO_TRANSLATION),
            huge_pages: share(&self.huge, &self.paged, NO_PAGE),
        }
    }

    fn row(&self, key: RowKey, all: &Sums) -> SampledRow {
        let most =
            self.places.iter().max_by_key(|(place, count)| (**count, std::cmp::Reverse(**place)));
        SampledRow {
            key,
            place: most.map_or(crate::stack::NO_STACK, |(place, _)| *place),
            loads: self.loads.records(),
            stores: self.stores.records(),
            load_share: share(&self.loads, &all.loads, "no load was sampled"),
            store_share: share(&self.stores, &all.stores, "no store was sampled"),
            time_share: time_share(&self.latency, &all.latency),
            latency: self.latency(),
            levels: self.levels(),
        }
    }
}

/// A part of samples, percent of these.
fn share(part: &Weight, of: &Weight, missing: &str) -> Metric {
    if of.amount() == 0 {
        return Metric::unavailable("percent", missing);
    }
    let share = part.amount() as f64 / of.amount() as f64;
    let (low, high) = wilson(share, of.effective_records());
    let interval = (low * 100.0, high * 100.0);
    Metric::with_interval(Evidence::Sampled, share * 100.0, "percent", interval, of.records())
}

/// A part of the latency of all loads. Each sample is a cluster with its part (all or nothing of it) and its whole, so that the
/// residuals follow from sums of squares.
fn time_share(part: &Distribution, all: &Distribution) -> Metric {
    if all.time <= 0.0 {
        return Metric::unavailable("percent", NOT_TIMED);
    }
    let ratio = part.time / all.time;
    let residuals = (1.0 - ratio).powi(2) * part.squares
        + ratio.powi(2) * (all.squares - part.squares).max(0.0);
    let samples = all.weight.records();
    let interval = ratio_interval(ratio, all.time, residuals, samples as usize);
    let percent = Metric {
        evidence: Some(Evidence::Sampled),
        samples,
        low: interval.map(|(low, _)| low * 100.0),
        high: interval.map(|(_, high)| high * 100.0),
        ..Metric::counted(ratio * 100.0, "percent")
    };
    if interval.is_none() { percent.noted("one sample has no interval") } else { percent }
}
