//! How much cache code needs: reuse distances of traced accesses, and what follows from them.
//!
//! What for: per row the *miss-ratio curve*: the share of accesses that a cache of each size would miss. It gives the block size
//! of a loop without trying. The same curve over pages gives the reach of a TLB, with 4 KB and with 2 MB pages; and the pages
//! themselves give the working set ([`Footprint`]).
//! What not: the program's misses. The cache here is *modelled*: fully associative, least recently used, one thread, no
//! prefetching. Real caches miss somewhat more because of conflicts and sharing, and wait less because of prefetchers.
//!
//! A burst has only its own accesses, so long distances are known only in part; `survival` deals with that. From the largest
//! distance that bursts can contain, a ratio is only known not to rise: it lies between 0 and the curve's last value.
//!
//! Cost, bursts of 3 ms: 28 ms for a streaming loop of 6 million accesses, 42 ms for 300,000 single loads in 32 KB, 55 ms
//! for as many in 64 MB (`cargo run --release -p analysis --example reuse_bench`; busy VM with 2 CPUs, Xeon).

mod events;
mod footprint;
mod lru;
mod survival;
mod tally;
mod walk;

use base::Bytes;
use facts::host::CacheKind;
use facts::{Burst, Evidence, Metric, Run};

use self::survival::{Survival, survival};
use self::tally::Tally;
use self::walk::{Question, Walked, walk};
use crate::accesses::{Head, ObjectRows, OrderedRows, Rows, is_chosen, ordered};
use crate::hotspots::{Key, RowKey};
use crate::objects::{Grouping, UnitRows};
use crate::profile::Profile;
use crate::selection::Selection;
use crate::stack::LocationId;
use crate::traced::{Site, TracedCode};
use estimate::interval::{median, median_interval};

pub use self::footprint::Footprint;

/// Bytes of a line.
const LINE: u64 = x86::LINE_BYTES as u64;
/// The smallest and the largest size of the curve.
const SMALLEST: u64 = 4 << 10;
const LARGEST: u64 = 64 << 20;
/// A loop is said to fit a size when this share of its accesses hits, percent.
pub const FITTING_PERCENT: f64 = 95.0;
/// A bound this low says as much as a value, percent.
const LOW_BOUND: f64 = 5.0;

/// How many translations a core holds. The defaults are those of Intel's server cores from Skylake to Cascade Lake (Intel
/// 64 and IA-32 Architectures Optimization Reference Manual, section on the TLBs of the Skylake microarchitecture);
/// Ice Lake and Zen 3 have 2048 in the second level.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TlbSizes {
    /// Data translations of 4 KB pages in the first level.
    pub first_small: usize,
    /// Data translations of 2 MB pages in the first level.
    pub first_large: usize,
    /// Translations of both in the second level.
    pub second: usize,
}

impl TlbSizes {
    /// Those of a machine, where it says them.
    #[must_use]
    pub fn of(host: &facts::host::Host) -> TlbSizes {
        let usual = TlbSizes::default();
        TlbSizes {
            second: host.tlb_entries.map_or(usual.second, |entries| entries as usize),
            ..usual
        }
    }
}

impl Default for TlbSizes {
    fn default() -> TlbSizes {
        TlbSizes { first_small: 64, first_large: 32, second: 1536 }
    }
}

/// A data cache of the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CacheSize {
    /// 1, 2, 3.
    pub level: u32,
    /// What a thread gets of it.
    pub bytes: Bytes,
}

/// The sizes that the machine was measured to have, else those that it says to have; a level at most once.
#[must_use]
pub fn cache_sizes(run: &Run) -> Vec<CacheSize> {
    let measured = run.calibration.iter().flat_map(|one| &one.effective_caches);
    let measured = measured.filter_map(|one| {
        Some(CacheSize { level: one.level, bytes: Bytes(one.bytes.value? as u64) })
    });
    let reported = run.host.caches.iter().filter(|cache| cache.kind != CacheKind::Instruction);
    let reported =
        reported.map(|cache| CacheSize { level: cache.level, bytes: Bytes(cache.bytes) });
    let mut sizes: Vec<CacheSize> = Vec::new();
    for size in measured.chain(reported) {
        if size.bytes.0 >= LINE && !sizes.iter().any(|known| known.level == size.level) {
            sizes.push(size);
        }
    }
    sizes.sort_by_key(|size| size.level);
    sizes
}

/// Miss ratios by size.
#[derive(Clone, PartialEq, Debug)]
pub struct Curve {
    /// In units, rising.
    capacities: Vec<usize>,
    unit: Bytes,
    points: Vec<Survival>,
    bursts: u64,
}

impl Curve {
    fn new(tally: &Tally, capacities: &[usize], unit: Bytes) -> Curve {
        Curve {
            capacities: capacities.to_vec(),
            unit,
            points: survival(&tally.bursts, capacities.len()),
            bursts: tally.bursts.len() as u64,
        }
    }

    /// All sizes, with the share of accesses that miss, percent.
    pub fn points(&self) -> impl Iterator<Item = (Bytes, Metric)> + '_ {
        self.capacities.iter().map(|capacity| {
            let size = Bytes(*capacity as u64 * self.unit.0);
            (size, self.miss(size))
        })
    }

    /// The share of accesses that a cache of this size does not hold, percent. Between two sizes of the curve, that of
    /// the smaller one.
    #[must_use]
    pub fn miss(&self, size: Bytes) -> Metric {
        let units = usize::try_from(size.0 / self.unit.0).unwrap_or(usize::MAX);
        let Some(at) = self.capacities.partition_point(|one| *one <= units).checked_sub(1) else {
            return Metric::unavailable("percent", "below the smallest size of the curve");
        };
        match (self.points.get(at), self.points.last()) {
            (Some(point), _) => self.metric(point),
            (None, Some(last)) => self.beyond(last),
            (None, None) => Metric::unavailable("percent", "no burst has enough accesses"),
        }
    }

    fn metric(&self, point: &Survival) -> Metric {
        let (value, bursts) = (point.value * 100.0, self.bursts);
        match point.interval {
            Some((low, high)) => {
                let interval = (low.min(point.value) * 100.0, high.max(point.value) * 100.0);
                Metric::with_interval(Evidence::Simulated, value, "percent", interval, bursts)
            }
            None => Metric {
                low: None,
                high: None,
                evidence: Some(Evidence::Simulated),
                samples: bursts,
                ..Metric::counted(value, "percent")
            }
            .noted("of one burst: no interval can be stated"),
        }
    }

    /// For sizes that are larger than what bursts touch.
    fn beyond(&self, last: &Survival) -> Metric {
        let last = self.metric(last);
        let high = last.high.or(last.value);
        let why =
            "bursts are too short for so much memory: at most the miss ratio of smaller sizes";
        if last.value.is_some_and(|value| value <= LOW_BOUND) {
            return Metric { low: Some(0.0), high, ..last }.noted(why);
        }
        Metric { low: Some(0.0), high, ..Metric::unavailable("percent", why) }
    }

    /// The smallest size that holds [`FITTING_PERCENT`] of the accesses, bytes.
    #[must_use]
    pub fn fitting(&self) -> Metric {
        self.holding(FITTING_PERCENT)
    }

    /// The smallest size that holds this percentage of the accesses, bytes.
    #[must_use]
    pub fn holding(&self, percent: f64) -> Metric {
        let limit = 1.0 - percent / 100.0;
        let first = |miss: &dyn Fn(&Survival) -> f64| {
            let at = self.points.iter().position(|point| miss(point) <= limit)?;
            Some(self.capacities[at] as f64 * self.unit.0 as f64)
        };
        let low = first(&|point| point.interval.map_or(point.value, |interval| interval.0));
        let Some(value) = first(&|point| point.value) else {
            let seen = self
                .points
                .len()
                .checked_sub(1)
                .map(|last| Bytes(self.capacities[last] as u64 * self.unit.0));
            let why = seen.map_or("no burst has enough accesses".to_owned(), |seen| {
                format!("no size up to {seen} suffices; bursts are too short for larger ones")
            });
            return Metric { low, ..Metric::unavailable("bytes", &why) };
        };
        let high = first(&|point| point.interval.map_or(point.value, |interval| interval.1));
        let metric = Metric {
            low: low.map(|low| low.min(value)),
            high,
            evidence: Some(Evidence::Simulated),
            samples: self.bursts,
            ..Metric::counted(value, "bytes")
        };
        match (high, self.bursts) {
            (_, 1) => Metric { low: None, high: None, ..metric }
                .noted("of one burst: no interval can be stated"),
            (None, _) => metric.noted("bursts are too short for an upper bound"),
            _ => metric,
        }
    }
}

/// What one size of page does to the TLB.
#[derive(Clone, PartialEq, Debug)]
pub struct Reach {
    /// Accesses whose translation the first level does not hold, percent.
    pub first_miss: Metric,
    /// Those that the second does not hold either, percent.
    pub second_miss: Metric,
    /// Distinct pages per burst.
    pub pages: Metric,
}

/// Code that is shown together.
#[derive(Clone, PartialEq, Debug)]
pub struct ReuseRow {
    /// What it is.
    pub key: RowKey,
    /// Without grouping: the site.
    pub site: Option<Site>,
    /// A place in it.
    pub place: LocationId,
    /// Miss ratios.
    pub curve: Curve,
    /// With 4 KB pages.
    pub small_pages: Reach,
    /// With 2 MB pages.
    pub large_pages: Reach,
    /// Accesses of which no distance is known.
    pub unknown: u64,
}

/// The whole of it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Reuse {
    /// In the order in which their code came up first.
    pub rows: Vec<ReuseRow>,
    /// Per burst, in the order of time.
    pub footprints: Vec<Footprint>,
    /// Bursts that were gone through, and those that are asked for.
    pub bursts: (usize, usize),
}

/// Goes through the chosen bursts. Rows are sites when `keys` is empty. `profile` must know the addresses of `code`
/// ([`Profile::with_addresses`]). The curves have points at `caches` as well.
#[must_use]
pub fn reuse(
    profile: &Profile<'_>,
    code: &TracedCode,
    selection: &Selection,
    keys: &[Key],
    caches: &[CacheSize],
    tlb: TlbSizes,
) -> Reuse {
    let Rows { heads, row_of_site } = Rows::new(profile, code, selection, keys);
    let chosen = |burst: &Burst| is_chosen(profile, selection, burst);
    let sizes = AskedSizes::new(caches, tlb);
    let question = sizes.question(code, &chosen);
    let rows = || UnitRows::of_sites(&[&row_of_site]);
    let walked = walk(profile.recording, &question, rows);
    sizes.summed(heads, walked)
}

/// The same with rows by object too.
#[must_use]
pub fn reuse_of_objects(grouping: &Grouping<'_>, caches: &[CacheSize], tlb: TlbSizes) -> Reuse {
    let Grouping { profile, code, selection, .. } = *grouping;
    let chosen = |burst: &Burst| is_chosen(profile, selection, burst);
    let sizes = AskedSizes::new(caches, tlb);
    let question = sizes.question(code, &chosen);
    let rows = ObjectRows::default();
    let mut walked = walk(profile.recording, &question, || rows.of(grouping));
    let OrderedRows { heads, order, .. } = rows.in_order(grouping);
    walked.tallies = walked.tallies.map(|level| ordered(level, &order));
    sizes.summed(heads, walked)
}

/// Where curves have points, in units.
struct AskedSizes {
    lines: Vec<usize>,
    small: Vec<usize>,
    large: Vec<usize>,
    tlb: TlbSizes,
}

impl AskedSizes {
    fn new(caches: &[CacheSize], tlb: TlbSizes) -> AskedSizes {
        AskedSizes {
            lines: line_capacities(caches),
            small: page_capacities(tlb.first_small, tlb.second),
            large: page_capacities(tlb.first_large, tlb.second),
            tlb,
        }
    }

    fn question<'a>(
        &'a self,
        code: &'a TracedCode,
        chosen: &'a (dyn Fn(&Burst) -> bool + Sync),
    ) -> Question<'a> {
        let AskedSizes { lines, small, large, .. } = self;
        Question { code, chosen, lines, small_pages: small, large_pages: large }
    }

    fn summed(&self, heads: Vec<Head>, mut walked: Walked) -> Reuse {
        walked.complete(heads.len());
        let [in_lines, in_small, in_large] = &walked.tallies;
        let tallies = in_lines.iter().zip(in_small).zip(in_large);
        let tlb = self.tlb;
        let mut found = Vec::new();
        for (head, ((in_lines, in_small), in_large)) in heads.into_iter().zip(tallies) {
            if in_lines.bursts.is_empty() {
                continue;
            }
            found.push(ReuseRow {
                key: head.key,
                site: head.site,
                place: head.place,
                curve: Curve::new(in_lines, &self.lines, Bytes(LINE)),
                small_pages: reach(in_small, &self.small, (tlb.first_small, tlb.second)),
                large_pages: reach(in_large, &self.large, (tlb.first_large, tlb.second)),
                unknown: in_lines.unknown,
            });
        }
        let footprints = footprint::footprints(&walked.pages);
        Reuse { rows: found, footprints, bursts: (walked.pages.len(), walked.bursts) }
    }
}

/// The miss ratios of this many rows of sites, in order, from one pass over all bursts; `None` for sites of no row.
pub(crate) fn curves(
    profile: &Profile<'_>,
    code: &TracedCode,
    row_of_site: &[Option<usize>],
    rows: usize,
) -> Vec<Curve> {
    let lines = line_capacities(&cache_sizes(&profile.recording.run));
    let question =
        Question { code, chosen: &|_| true, lines: &lines, small_pages: &[], large_pages: &[] };
    let of_sites = || UnitRows::of_sites(&[row_of_site]);
    let mut walked = walk(profile.recording, &question, of_sites);
    walked.complete(rows);
    walked.tallies[0].iter().map(|tally| Curve::new(tally, &lines, Bytes(LINE))).collect()
}

/// From [`SMALLEST`] to [`LARGEST`] by a factor of the square root of 2, and the caches; in lines.
fn line_capacities(caches: &[CacheSize]) -> Vec<usize> {
    let mut capacities: Vec<usize> =
        caches.iter().map(|cache| (cache.bytes.0.min(LARGEST * 16) / LINE) as usize).collect();
    let mut bytes = SMALLEST;
    while bytes <= LARGEST {
        capacities.push((bytes / LINE) as usize);
        if bytes < LARGEST {
            capacities.push((bytes as f64 * std::f64::consts::SQRT_2 / LINE as f64) as usize);
        }
        bytes *= 2;
    }
    rising(capacities)
}

/// Both levels, and steps in between: in one wide segment, half of what is censored would be guessed.
fn page_capacities(first: usize, second: usize) -> Vec<usize> {
    let steps = (0..).map(|step| (first as f64 * std::f64::consts::SQRT_2.powi(step)) as usize);
    rising(steps.take_while(|entries| *entries < second).take(64).chain([first, second]).collect())
}

fn rising(mut capacities: Vec<usize>) -> Vec<usize> {
    capacities.retain(|capacity| *capacity > 0);
    capacities.sort_unstable();
    capacities.dedup();
    capacities
}

fn reach(tally: &Tally, capacities: &[usize], levels: (usize, usize)) -> Reach {
    // A unit of one byte: sizes are numbers of translations.
    let curve = Curve::new(tally, capacities, Bytes(1));
    let of = |entries: usize| curve.miss(Bytes(entries as u64));
    Reach { first_miss: of(levels.0), second_miss: of(levels.1), pages: pages(tally) }
}

fn pages(tally: &Tally) -> Metric {
    let mut sorted = tally.units.clone();
    sorted.sort_by(f64::total_cmp);
    let Some(value) = median(&sorted) else {
        return Metric::unavailable("count", "no burst has an access of it");
    };
    let interval = median_interval(&sorted);
    let bursts = sorted.len() as u64;
    let metric = Metric {
        low: interval.map(|interval| interval.0),
        high: interval.map(|interval| interval.1),
        evidence: Some(Evidence::Traced),
        samples: bursts,
        ..Metric::counted(value, "count")
    };
    if tally.unknown > 0 {
        return Metric { high: None, ..metric }.noted("at least: some addresses are not recorded");
    }
    match interval {
        Some(_) => metric,
        None => metric.noted(&format!("median of {bursts} bursts: too few for an interval")),
    }
}
