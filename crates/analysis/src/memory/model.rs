//! What the unknown outcomes of the cache model amount to.
//!
//! What for: expected lines fetched and written, with bounds, per burst and site. An access of unknown outcome missed with the
//! probability of the same site's accesses whose outcome is known (`survival`). Where no access was observed deep enough, the
//! amount of data that its region uses decides (`footprint`).
//! What not: rates.
//!
//! If the last level's sets filled up in bursts, their depths decide (`by_sets`); if bursts were too short for that, the times
//! between touches (`by_times`).

use std::collections::HashMap;

use base::IndexMap;
use cachesim::LevelTally;
use estimate::Bounds;

use super::code_regions::CodeRegion;
use super::footprint::{Extent, Footprint};
use super::levels::STLB_WAYS;
use super::pass::{Passed, SiteOutcomes};
use super::survival::Survival;
use super::times::BINS;
use super::work::{BoundedCount, BurstWork, SiteWork, listed};
use crate::stack::FunctionId;
use crate::traced::SiteIndex;

/// Sizes of the model's levels.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Level {
    pub(crate) bytes: f64,
    pub(crate) ways: usize,
}

/// Chances of a site.
struct Chances {
    l1: Survival,
    l2: Survival,
    llc: Survival,
    times: Survival,
    outcomes: SiteOutcomes,
    /// That an access needs a page walk: it is asked for each burst.
    walks: Bounds,
}

impl Chances {
    fn of(outcomes: &SiteOutcomes, levels: &[Level; 3]) -> Chances {
        let stlb = Survival::of(&outcomes.stlb, STLB_WAYS as usize);
        let executed = (outcomes.loads + outcomes.stores).max(1) as f64;
        let known = outcomes.stlb.absent.misses as f64;
        let open = Bounds { best: 0.5, low: 0.0, high: 1.0 };
        let missed = |open| (known + missed_among(&outcomes.stlb, &stlb, open)) / executed;
        Chances {
            l1: Survival::of(&outcomes.l1, levels[0].ways),
            l2: Survival::of(&outcomes.l2, levels[1].ways),
            llc: Survival::of(&outcomes.llc, levels[2].ways),
            walks: open.each(missed),
            times: Survival::of(&outcomes.times, BINS),
            outcomes: outcomes.clone(),
        }
    }
}

/// Chances of all sites, and the data of all places.
pub(crate) struct Model {
    sites: IndexMap<SiteIndex, Chances>,
    extents: IndexMap<CodeRegion, Option<Extent>>,
    levels: [Level; 3],
    /// What is asked again and again of a site in a place.
    answers: IndexMap<(CodeRegion, SiteIndex), HitLevels>,
}

/// Share of a site's accesses that hit in each level, 0 to 1. An access of two lines has the level of the further one.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct HitLevels {
    pub(crate) l1: Bounds,
    pub(crate) l2: Bounds,
    pub(crate) l3: Bounds,
    pub(crate) dram: Bounds,
}

impl Model {
    /// From the pooled outcomes of all bursts.
    pub(crate) fn new(passed: &Passed, levels: [Level; 3]) -> Model {
        let sites = passed.sites.iter();
        let sites = sites.map(|(site, one)| (*site, Chances::of(one, &levels)));
        let mut model = Model {
            sites: sites.collect(),
            extents: extents(passed),
            levels,
            answers: IndexMap::default(),
        };
        let mut answers = IndexMap::default();
        for (burst, work) in
            passed.bursts.iter().flat_map(|one| one.sites.iter().map(move |work| (one, work)))
        {
            if let Some(chances) = model.sites.get(&work.site) {
                let key = (burst.place, work.site);
                answers.entry(key).or_insert_with(|| model.levels_of(burst.place, chances));
            }
        }
        model.answers = answers;
        model
    }

    /// Expected number of lines, of those that a site fetched in a burst. Lines of pages that the kernel has just zeroed, in the
    /// page fault, are in the caches: it stores to all of the page (`clear_page_erms`, arch/x86/lib/clear_page_64.S).
    pub(crate) fn fetched(
        &self,
        burst: &BurstWork,
        site: &SiteWork,
        lines: &BoundedCount,
    ) -> Bounds {
        let all = self.missed(burst, site, lines);
        let Bounds { best, low, high } = burst.zeroed;
        Bounds {
            best: all.best * (1.0 - best),
            low: all.low * (1.0 - high),
            high: all.high * (1.0 - low),
        }
    }

    /// The same, with those of pages that the kernel has just zeroed.
    fn missed(&self, burst: &BurstWork, site: &SiteWork, lines: &BoundedCount) -> Bounds {
        let unknown = self.unknown_lines(burst.place, site.site, lines, &site.firsts);
        Bounds::exactly(lines.known as f64).plus(unknown)
    }

    /// The same of those that it made dirty. A line that another site touched first was fetched by that one: `c += x` is mostly
    /// a load and a store of two instructions, of which the store never misses.
    pub(crate) fn dirtied(
        &self,
        burst: &BurstWork,
        site: &SiteWork,
        lines: &BoundedCount,
    ) -> Bounds {
        let fetched_by = self.sites.get(&site.site).map(|chances| &chances.outcomes.fetched_by);
        let fetched_by = fetched_by.filter(|by| !by.is_empty());
        let Some(fetched_by) = fetched_by else { return self.missed(burst, site, lines) };
        let all: u64 = fetched_by.values().sum();
        let known = Bounds::exactly(lines.known as f64);
        fetched_by.iter().fold(known, |sum, (first, count)| {
            let at = burst.sites.binary_search_by_key(first, |other| other.site);
            let firsts = at.map_or(&[][..], |at| burst.sites[at].firsts.as_slice());
            let unknown = self.unknown_lines(burst.place, *first, lines, firsts);
            sum.plus(unknown.times(*count as f64 / all as f64))
        })
    }

    /// Expected number of the unknown ones of lines that a site of a place fetched; `firsts` are its first touches in the burst,
    /// by time.
    fn unknown_lines(
        &self,
        place: CodeRegion,
        site: SiteIndex,
        lines: &BoundedCount,
        firsts: &[(u8, u64)],
    ) -> Bounds {
        let Some(chances) = self.sites.get(&site) else { return Bounds::default() };
        self.lines_of(place, chances, lines, firsts)
    }

    fn lines_of(
        &self,
        place: CodeRegion,
        chances: &Chances,
        lines: &BoundedCount,
        firsts: &[(u8, u64)],
    ) -> Bounds {
        if chances.llc.is_closed() {
            return by_sets(chances, &lines.unknown);
        }
        let unknown: u64 = lines.unknown.iter().map(|(_, count)| count).sum();
        self.by_times(place, chances, firsts).times(unknown as f64)
    }

    /// The chance that a touch of unknown outcome missed all levels, where they were not.
    fn by_times(&self, place: CodeRegion, chances: &Chances, firsts: &[(u8, u64)]) -> Bounds {
        let open = self.open(place, 2);
        let all: u64 = firsts.iter().map(|(_, count)| count).sum();
        if all == 0 {
            return open;
        }
        open.each(|open| {
            let sum: f64 = firsts
                .iter()
                .map(|(bin, count)| chances.times.miss(usize::from(*bin), open) * *count as f64)
                .sum();
            sum / all as f64
        })
    }

    /// The chance that what no access reached misses a level, from the amount of data.
    fn open(&self, place: CodeRegion, level: usize) -> Bounds {
        match self.extents.get(&place).copied().flatten() {
            Some(extent) => extent.miss(self.levels[level].bytes),
            None => Bounds { best: 0.5, low: 0.0, high: 1.0 },
        }
    }

    /// The chance that an access of a site needs a page walk.
    pub(crate) fn walks(&self, site: SiteIndex) -> Bounds {
        self.sites.get(&site).map_or_else(Bounds::default, |chances| chances.walks)
    }

    /// Hit levels of the accesses of a site, over all bursts.
    pub(crate) fn hit_levels(&self, place: CodeRegion, site: SiteIndex) -> HitLevels {
        self.answers.get(&(place, site)).copied().unwrap_or_default()
    }

    fn levels_of(&self, place: CodeRegion, chances: &Chances) -> HitLevels {
        let of = &chances.outcomes;
        // Of two lines of one access mostly one misses.
        let executed = (of.loads.max(of.stores).max(1) as f64).max(of.l1.absent.misses as f64);
        let ratio = |tally: &LevelTally, survival: &Survival, level: usize, of: f64| {
            if of <= 0.0 {
                return Bounds::exactly(0.0);
            }
            let misses = tally.absent.misses as f64;
            let open = self.open(place, level);
            open.each(|open| ((misses + missed_among(tally, survival, open)) / of).min(1.0))
        };
        let one = ratio(&of.l1, &chances.l1, 0, executed);
        let second = ratio(&of.l2, &chances.l2, 1, of.l2.touches() as f64);
        // To come from beyond L2, a line must miss in both: the shares multiply.
        let two = Bounds {
            best: one.best * second.best,
            low: one.low * second.low,
            high: one.high * second.high,
        };
        let firsts = listed(&of.times.absent.unknown);
        let fills = BoundedCount::of(&of.llc.absent);
        let dram = self.lines_of(place, chances, &fills, &firsts);
        let dram = dram.plus(Bounds::exactly(fills.known as f64));
        let dram = dram.times(1.0 / executed);
        let three = Bounds {
            best: dram.best.min(two.best),
            low: dram.low.min(two.high),
            high: dram.high.min(two.high),
        };
        // The two may err together or against each other: the ends are the widest that both allow.
        let minus = |a: Bounds, b: Bounds| Bounds {
            best: (a.best - b.best).max(0.0),
            low: (a.low - b.high).max(0.0),
            high: (a.high - b.low).max(0.0),
        };
        HitLevels {
            l1: minus(Bounds::exactly(1.0), one),
            l2: minus(one, two),
            l3: minus(two, three),
            dram: three,
        }
    }
}

/// The data of each place; of a loop of which bursts saw too little, those of its function.
fn extents(passed: &Passed) -> IndexMap<CodeRegion, Option<Extent>> {
    let mut extents: IndexMap<CodeRegion, Option<Extent>> =
        passed.footprints.iter().map(|(of, data)| (*of, data.extent())).collect();
    let functions: HashMap<CodeRegion, FunctionId> =
        passed.bursts.iter().map(|burst| (burst.place, burst.function)).collect();
    let mut whole: HashMap<FunctionId, Option<Extent>> = HashMap::new();
    for (place, extent) in extents.iter_mut().filter(|(_, extent)| extent.is_none()) {
        let Some(function) = functions.get(place) else { continue };
        *extent = *whole.entry(*function).or_insert_with(|| {
            let same = |place: &&CodeRegion| functions.get(place) == Some(function);
            let mut all = Footprint::default();
            let parts = passed.footprints.iter().filter(|(place, _)| same(place));
            parts.for_each(|(_, data)| all.merge(data.clone()));
            all.extent()
        });
    }
    extents
}

/// Misses among touches of unknown outcome, where the last level's sets were seen full.
fn by_sets(chances: &Chances, unknown: &[(u8, u64)]) -> Bounds {
    let ages = unknown.iter();
    let missed = ages.map(|(age, count)| chances.llc.miss(usize::from(*age), 1.0) * *count as f64);
    Bounds::exactly(missed.sum())
}

/// Expected misses among the unknown touches.
fn missed_among(tally: &LevelTally, survival: &Survival, open: f64) -> f64 {
    let ages = tally.absent.unknown.iter().enumerate();
    ages.map(|(age, count)| survival.miss(age, open) * *count as f64).sum()
}
