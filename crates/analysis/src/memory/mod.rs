//! What memory does to the program: traffic, bandwidth, hit levels, latency.
//!
//! What for: traced bursts go through a cache model once ([`Memory::new`]); everything else is sums over its outcomes.
//!
//! ```text
//! replay of bursts -> pass (cachesim) -> model: survival, footprint -> Quantity per burst and region
//!          samples -> code regions, paces of loops; native: seconds of a burst -> strata -> totals, rates, intervals
//! ```
//! What not: time of the kernel, traffic of other programs. No hardware counter is used.
//!
//! Each file states its assumptions. One holds for all: the bursts of a region are typical of it.

mod arithmetic;
mod bandwidth;
mod bins;
mod bound;
mod branches;
mod code_regions;
mod concurrency;
mod copies;
mod core_time;
mod expansion;
mod flushes;
mod footprint;
mod function;
mod last_level;
mod latency;
mod level_rates;
mod levels;
mod main_object;
mod model;
mod native;
mod native_pace;
mod parts;
mod pass;
mod path_paces;
mod predictors;
mod quantity;
mod represented;
mod roofs;
mod rows;
mod simulated;
mod strata;
mod survival;
mod timer_step;
mod times;
mod unseen;
mod verdict;
mod waits;
mod windows;
mod words;
mod work;
mod zeroed;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use base::{BurstId, Nanos, NodeId};
use cachesim::{Hierarchy, Tlb};
use estimate::Bounds;
use facts::{Evidence, Metric};

use self::code_regions::{CodeRegion, CodeRegions};
use self::expansion::Expansion;
use self::latency::TimedLoads;
use self::levels::Sizes;
use self::model::Model;
use self::native::{Speeds, Work, is_cold, least, native_parts, running, tells_rates, toll};
use self::pass::{Passed, pass};
use self::path_paces::PathPaces;
use self::quantity::Quantity;
use self::strata::{FEW_UNSEEN, FEWEST_IN_ALL, Observation, Strata};
use self::windows::Slowest;
use self::work::{
    BurstWork, SiteWork, UnitWork, WorksByPart, WorksBySite, works_by_part, works_by_site,
};
use crate::accesses::{GroupedAccesses, is_chosen};
use crate::findings::{Answers, Asked, Asking, stored};
use crate::hotspots::Key;
use crate::objects::{Objects, Part, Pieces};
use crate::overhead::why_no_bursts;
use crate::parallel::both;
use crate::profile::{Cell, Profile};
use crate::selection::Selection;
use crate::sharing::SharedLines;
use crate::stalls::{ObjectsOfSites, Stalls};
use crate::threads::ThreadIndex;
use crate::traced::{SiteIndex, TracedCode};

pub use self::arithmetic::FloatingPointWork;
pub use self::bandwidth::{Bands, Bandwidth, BandwidthBin, BandwidthStep};
pub use self::bound::{Bound, IMPOSSIBLE, NEAR_PEAK, WHY_BEYOND, WHY_IMPOSSIBLE};
pub(crate) use self::core_time::seconds;
pub use self::flushes::{FlushPlace, FlushRow, FlushTable, flushes_any};
pub use self::function::{FunctionMemory, SiteWeight};
pub use self::latency::{Latency, LatencyRow, LatencyStep};
pub use self::level_rates::LevelRate;
pub use self::levels::LevelShares;
pub(crate) use self::main_object::{OfObjects, main_object};
pub use self::parts::PartRow;
pub use self::roofs::{Limit, Mix, Roof, RowRoofs};
pub use self::rows::{MemoryRow, ThreadTraffic};
pub use self::verdict::{BOUND_PERCENT, Certainty, Class, Verdict};

/// Loads (and stores) per second that code in which no burst began may execute: two a cycle at 3 GHz. An interpreter of
/// byte code does half of that.
const MOST_PER_SECOND: f64 = 6e9;

const LINE: f64 = x86::LINE_BYTES as f64;

/// Why there is no share of traffic.
const NOTHING_MOVED: &str = "the program moved no data to or from memory";

/// Accesses that the program executed.
#[derive(Clone, PartialEq, Debug)]
pub struct ExecutedAccesses {
    /// Loads.
    pub loads: Metric,
    /// Stores.
    pub stores: Metric,
}

/// Everything that bursts tell about memory, of the whole program or a selection: what is known of them, with the recording
/// that it is of.
pub struct Memory<'a> {
    profile: &'a Profile<'a>,
    code: &'a TracedCode,
    replayed: Arc<Replayed>,
    selection: Selection,
    /// Those that were taken in the selection; `None`: all.
    bursts: Option<HashSet<BurstId>>,
    strata: Arc<Strata>,
    /// Loads of each site.
    loads: Arc<BTreeMap<SiteIndex, f64>>,
    /// Why there is nothing to say, if so.
    missing: Option<String>,
    /// What the reader must know.
    pub notes: Vec<String>,
}

/// Bursts that went through the cache model, with objects distinguished, and what follows for the whole program: nearly all of
/// the work behind a [`Memory`], to be done once where several are asked for.
pub struct Replayed {
    passed: Passed,
    model: Model,
    strata: Arc<Strata>,
    /// Where the work of each site is: number of the burst, position in it. With thousands of rows nobody wants to look
    /// through all bursts for each.
    works: WorksBySite,
    /// The same by part of an object, with its position in the site's work.
    parts: WorksByPart,
    /// What all sites did.
    all: Amounts,
    /// Loads of each site over the whole run.
    loads: Arc<BTreeMap<SiteIndex, f64>>,
    timed: TimedLoads,
    /// What clock samples waited for.
    stalls: Stalls,
    /// Time of instructions outside loops that have a no-miss time.
    paces: PathPaces,
    /// Bandwidth by the usual bands: the summary and its findings both want it, and it takes a look at every sample.
    bandwidth: OnceLock<Bandwidth>,
    /// Memory's share of the whole program: likewise, and it draws the core time of every burst.
    bound: OnceLock<Result<Bound, String>>,
    /// Rates of the levels of cache of the whole program.
    level_rates: OnceLock<[LevelRate; 2]>,
    /// What findings ask of all accesses.
    asked: OnceLock<Asked>,
    missing: Option<String>,
    notes: Vec<String>,
}

impl Deref for Memory<'_> {
    type Target = Replayed;

    fn deref(&self) -> &Replayed {
        &self.replayed
    }
}

/// Loads and stores, and what became of them, at one site in all bursts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Amounts {
    pub(crate) read: Quantity,
    pub(crate) write: Quantity,
    pub(crate) loads: Quantity,
    pub(crate) stores: Quantity,
}

/// The number of a burst's work, that, what it did at a site, and there with a part of an object.
type OfPart<'w> = (usize, &'w BurstWork, &'w SiteWork, &'w UnitWork);

impl Replayed {
    /// Simulates all bursts, with objects distinguished as finely as requested, if any were recorded. Takes about 10 ns per access
    /// that is not part of a summarised loop. `judges`: findings will be asked for, whose questions go along, and so do tables of
    /// accesses by these keys.
    #[must_use]
    pub fn new(
        profile: &Profile<'_>,
        code: &TracedCode,
        objects: &Objects,
        pieces: Pieces,
        judges: Option<&[Vec<Key>]>,
    ) -> Replayed {
        let judges = judges.map(|keys| (Some(objects), keys));
        let objects = Some((objects, pieces)).filter(|_| objects.any());
        Replayed::by_part(profile, code, objects, judges)
    }

    fn by_part(
        profile: &Profile<'_>,
        code: &TracedCode,
        objects: Option<(&Objects, Pieces)>,
        judges: Option<(Option<&Objects>, &[Vec<Key>])>,
    ) -> Replayed {
        let sizes = Sizes::of(profile);
        // What bursts show apart from accesses does not depend on the code regions of samples.
        let other_facts = || (TimedLoads::read(profile, code, objects), Stalls::new(profile));
        let ((timed, stalls), places) = both(other_facts, || CodeRegions::new(profile, code));
        let (mut answers, asked) = (Answers::default(), OnceLock::new());
        let whole = Selection::default();
        let asking = judges.map(|tables| Asking::new((profile, code), &whole, tables));
        let asker = || asking.as_ref().map(Asking::asker);
        let take = |of: Option<_>| of.into_iter().for_each(|of| answers.take(of));
        let simulated = Hierarchy::new(&sizes.config()).and_then(|caches| {
            let pages = (&Tlb::new(&sizes.tlb())?, sizes.page);
            let (passed, askers) =
                pass(profile, (code, &places), &caches, pages, objects, (asker, take));
            Ok((passed, askers.into_iter().flatten().map(stored).collect()))
        });
        let (mut passed, missing) = match simulated {
            Ok((passed, stored)) => {
                answers.walked.iter_mut().for_each(|walked| walked.damage = passed.damage);
                if let Some(asking) = asking {
                    _ = asked.set(asking.asked(answers, stored));
                }
                (passed, None)
            }
            Err(error) => {
                let why = format!("the caches of this machine cannot be simulated: {error}");
                (Passed::default(), Some(why))
            }
        };
        passed.note_sampled(&stalls, code, &places);
        let mut notes = sizes.notes.clone();
        let paces = PathPaces::read(profile, code, &passed.bursts);
        let all = works(profile, &passed.bursts, &paces);
        let regions = passed.bursts.iter().map(|work| work.place);
        let speeds = Speeds::new(profile, (code, &places), &all, regions);
        let bursts = &profile.recording.bursts;
        let mut tracing = BTreeSet::new();
        let tells = |work: &Work| !work.is_untimed || speeds.is_counted(work);
        let known: HashSet<CodeRegion> =
            all.iter().filter(|work| tells(work)).map(|work| work.place).collect();
        let works_of: HashMap<BurstId, &Work> = all.iter().map(|work| (work.burst, work)).collect();
        passed.bursts.retain(|work| {
            let burst = &bursts[work.burst];
            let whole = works_of.get(&burst.id);
            let is_foreign = whole.is_none_or(|whole| whole.is_foreign);
            let is_of_use = whole.is_some_and(|whole| {
                // Of a region without any other, the time of a burst is hardly known, but what it does is.
                tells(whole) || !known.contains(&whole.place) && !is_foreign
            });
            // Of a loop with a pace it does not matter how fast it was.
            let is_of_use = is_of_use || places.paced(work.place).is_some();
            if !is_of_use && is_foreign {
                tracing.insert(work.burst);
            }
            is_of_use
        });
        let works = works(profile, &passed.bursts, &paces);
        let parts = native_parts(&passed.bursts, &works, &speeds, (&places, &paces));
        let observations = passed.bursts.iter().zip(parts).map(|(work, part)| Observation {
            burst: work.burst,
            time: bursts[work.burst].time,
            place: work.place,
            seconds: part.seconds,
            speed: part.speed,
        });
        let observations = observations.collect();
        let strata = Strata::new(profile, Arc::new(places), observations, &speeds.into_off());
        let missing = missing.or_else(|| too_few(profile, &strata));
        if strata.unseen() > FEW_UNSEEN && missing.is_none() {
            notes.push(format!(
                "no burst began in functions with {:.0} % of the CPU time; the mean of all other code represents \
                them",
                strata.unseen() * 100.0
            ));
        }
        if !code.left_out.is_empty() {
            notes.push(format!(
                "the cache model used {} bursts; {} more, evenly spread, are left out to save time",
                strata.bursts(),
                code.left_out.len()
            ));
        }
        if !tracing.is_empty() {
            let (plural, they) = match tracing.len() {
                1 => ("", "it shows no rates and is"),
                _ => ("s", "they show no rates and are"),
            };
            notes.push(format!(
                "{} burst{plural} met new code repeatedly and ran little of the program: {they} left out",
                tracing.len()
            ));
        }
        let damaged = passed.damage.records + passed.damage.pieces;
        if damaged > 0 {
            notes.push(format!("{damaged} records of bursts could not be read: they are left out"));
        }
        let model = Model::new(&passed, sizes.levels());
        let (works, parts) = (works_by_site(&passed.bursts), works_by_part(&passed.bursts));
        let mut replayed = Replayed {
            passed,
            model,
            strata: Arc::new(strata),
            works,
            parts,
            all: Amounts::default(),
            loads: Arc::default(),
            timed,
            stalls,
            paces,
            bandwidth: OnceLock::new(),
            bound: OnceLock::new(),
            level_rates: OnceLock::new(),
            asked,
            missing,
            notes,
        };
        replayed.all = replayed.amounts(replayed.passed.sites.keys().copied());
        replayed.loads = Arc::new(replayed.loads_by_site(&replayed.strata));
        replayed
    }

    /// What the clock samples waited for.
    #[must_use]
    pub fn stalls(&self) -> &Stalls {
        &self.stalls
    }

    /// What some sites did, per burst.
    fn amounts(&self, sites: impl Iterator<Item = SiteIndex>) -> Amounts {
        let works = sites.flat_map(|site| self.works_of(site));
        self.summed(works.map(|(number, burst, site)| (number, burst, site, &site.done)))
    }

    /// These works, per burst.
    fn summed<'w>(&self, works: impl Iterator<Item = OfPart<'w>>) -> Amounts {
        let none = || Quantity::none(self.passed.bursts.len());
        let mut amounts = Amounts { read: none(), write: none(), loads: none(), stores: none() };
        for (number, burst, site, done) in works {
            let (fills, written) = self.moved_by(burst, site, done);
            amounts.read.add(number, fills);
            amounts.write.add(number, written);
            amounts.loads.add(number, Bounds::exactly(done.loads as f64));
            amounts.stores.add(number, Bounds::exactly(done.stores as f64));
        }
        amounts
    }

    /// Bytes that a burst read from memory and wrote to it, at a site or in a part of an object there.
    fn moved_by(&self, burst: &BurstWork, site: &SiteWork, done: &UnitWork) -> (Bounds, Bounds) {
        // First touches by time are those of the site: so the parts' lines sum up to the site's.
        let fills = self.model.fetched(burst, site, &done.fills).times(LINE);
        let dirtied = self.model.dirtied(burst, site, &done.dirtied).times(LINE);
        (fills, dirtied.plus(Bounds::exactly(done.streamed as f64)))
    }

    /// Loads of the sites that load, over what these strata are of.
    fn loads_by_site(&self, strata: &Strata) -> BTreeMap<SiteIndex, f64> {
        let total = |site: SiteIndex| {
            let loads = self.works_of(site).map(|(at, _, work)| (at, work.loads as f64));
            strata.expansion().sum(loads)
        };
        let sites = self.passed.sites.iter().filter(|(_, outcomes)| outcomes.loads > 0);
        sites.map(|(site, _)| (*site, total(*site))).collect()
    }

    /// Work of a site in each burst that reached it, with the burst and its number.
    fn works_of(&self, site: SiteIndex) -> impl Iterator<Item = (usize, &BurstWork, &SiteWork)> {
        let places = self.works.get(&site).map_or(&[][..], Vec::as_slice);
        places.iter().map(|(number, position)| {
            let burst = &self.passed.bursts[*number];
            (*number, burst, &burst.sites[*position])
        })
    }

    /// The same with one part of an object.
    fn works_of_part(&self, site: SiteIndex, part: Part) -> impl Iterator<Item = OfPart<'_>> {
        let places = self.parts.get(&(site, part)).map_or(&[][..], Vec::as_slice);
        places.iter().map(|(number, position, at)| {
            let burst = &self.passed.bursts[*number];
            let work = &burst.sites[*position];
            (*number, burst, work, &work.parts[*at].1)
        })
    }
}

impl<'a> Memory<'a> {
    /// Simulates all bursts. Takes about 10 ns per access that is not part of a summarised loop.
    #[must_use]
    pub fn new(profile: &'a Profile<'a>, code: &'a TracedCode) -> Memory<'a> {
        Memory::of(profile, code, Arc::new(Replayed::by_part(profile, code, None, None)))
    }

    /// The same, with objects distinguished, as finely as requested: [`Memory::part_rows`]. All other figures are the same.
    #[must_use]
    pub fn with_objects(
        profile: &'a Profile<'a>,
        code: &'a TracedCode,
        objects: &Objects,
        pieces: Pieces,
    ) -> Memory<'a> {
        Memory::of(profile, code, Arc::new(Replayed::new(profile, code, objects, pieces, None)))
    }

    /// From bursts of this recording that were simulated before.
    #[must_use]
    pub fn of(
        profile: &'a Profile<'a>,
        code: &'a TracedCode,
        replayed: Arc<Replayed>,
    ) -> Memory<'a> {
        Memory {
            profile,
            code,
            selection: Selection::default(),
            bursts: None,
            strata: Arc::clone(&replayed.strata),
            loads: Arc::clone(&replayed.loads),
            missing: replayed.missing.clone(),
            notes: replayed.notes.clone(),
            replayed,
        }
    }

    /// The same of a part: of the time and threads that are selected the samples tell how long, and the bursts what they did.
    #[must_use]
    pub fn selected(self, selection: &Selection) -> Memory<'a> {
        let selection = selection.clone();
        if selection.time().is_none() && !selection.chooses_threads() {
            return Memory { selection, ..self };
        }
        let Memory { profile, code, replayed, mut notes, .. } = self;
        let all = &profile.recording.bursts;
        let asked = all.iter().filter(|burst| is_chosen(profile, &selection, burst));
        let bursts: HashSet<BurstId> = asked.map(|burst| burst.id).collect();
        let chosen = |at: usize| bursts.contains(&all[replayed.passed.bursts[at].burst].id);
        let strata = replayed.strata.of_part(profile, &profile.cells(&selection), chosen);
        let loads = Arc::new(replayed.loads_by_site(&strata));
        let too_few = || {
            let bursts = strata.bursts();
            if strata.seconds <= 0.0 {
                return Some("the program did not run in the selection".to_owned());
            }
            (bursts < FEWEST_IN_ALL).then(|| {
                format!(
                    "only {bursts} bursts were taken in the selection, {FEWEST_IN_ALL} are needed"
                )
            })
        };
        let missing = replayed.missing.clone().or_else(too_few);
        notes.push(format!("{} bursts represent the selected time and threads", strata.bursts()));
        if strata.unseen() > FEW_UNSEEN && missing.is_none() {
            notes.push(format!(
                "none of these began in functions with {:.0} % of the selected CPU time; their mean represents \
                that code",
                strata.unseen() * 100.0
            ));
        }
        let (bursts, strata) = (Some(bursts), Arc::new(strata));
        Memory { profile, code, replayed, selection, bursts, strata, loads, missing, notes }
    }

    /// Which objects each site used in bursts. Only where the memory was built with whole objects distinguished.
    #[must_use]
    pub fn objects_of_sites(&self) -> ObjectsOfSites {
        let mut found = ObjectsOfSites::new();
        for (site, part) in self.replayed.parts.keys() {
            let site = &self.code.sites[site.index()];
            let name = site.name();
            found.entry(name).or_default().insert(part.object);
        }
        found
    }

    /// What findings ask of all accesses.
    pub(crate) fn asked(&self) -> &Asked {
        let whole = Selection::default();
        let alone = || Asking::new((self.profile, self.code), &whole, (None, &[])).alone();
        self.replayed.asked.get_or_init(alone)
    }

    /// The lines that threads share, if these are known already.
    #[must_use]
    pub fn known_shared(&self) -> Option<&SharedLines> {
        self.replayed.asked.get().map(|asked| &asked.shared)
    }

    /// Accesses by keys, if these are known already.
    #[must_use]
    pub fn known_by(&self, keys: &[Key]) -> Option<GroupedAccesses> {
        let asked = self.replayed.asked.get()?;
        match keys {
            [] => Some((asked.accesses.clone(), Vec::new())),
            keys => asked.tables.get(keys).cloned(),
        }
    }

    /// Why there are no figures, if so.
    #[must_use]
    pub fn missing(&self) -> Option<&str> {
        self.missing.as_deref()
    }

    /// Bandwidth of the program, as far as it is selected.
    ///
    /// # Errors
    /// Why it cannot be had.
    pub fn bandwidth(&self, bands: Bands) -> Result<Bandwidth, &str> {
        self.available()?;
        let make = |amounts: &Amounts| self.bandwidth_of(amounts, bands);
        Ok(match self.selection.chooses_places() {
            _ if self.selection.chooses_nodes() => make(&self.amounts_on(|_| true)),
            true => {
                let sites = self.passed.sites.keys().copied();
                let chosen = |site: &SiteIndex| self.selection.has_place(self.place(*site));
                make(&self.amounts(sites.filter(chosen)))
            }
            false if self.bursts.is_none() && bands == Bands::default() => {
                self.replayed.bandwidth.get_or_init(|| make(&self.all)).clone()
            }
            false => make(&self.all),
        })
    }

    fn bandwidth_of(&self, Amounts { read, write, .. }: &Amounts, bands: Bands) -> Bandwidth {
        let of = (&*self.strata, &self.selection);
        let reach = self.reach().value;
        let mut found = bandwidth::bandwidth(self.profile, of, (read, write), (reach, bands));
        let running = bandwidth::running_in(self.profile, &self.selection, &found.bins);
        for (bin, running) in found.bins.iter_mut().zip(running) {
            // Where nothing moves, what the run as a whole does.
            let written = bin.written().unwrap_or_else(|| self.written());
            bin.reachable = self.reach_of(running, written);
        }
        found
    }

    /// Traffic over time with the memory of each selected node, by node; `None`: memory whose node is not known. The objects must be
    /// divided into [`Pieces::Nodes`].
    ///
    /// # Errors
    /// Why it cannot be had.
    pub fn bandwidth_by_node(&self) -> Result<Vec<NodeBins>, &str> {
        self.available()?;
        let nodes: BTreeSet<Option<NodeId>> =
            self.parts.keys().map(|(_, part)| part.node).collect();
        let chosen = nodes.into_iter().filter(|node| self.selection.has_node(*node));
        let over_time = |node: Option<NodeId>| {
            let amounts = self.amounts_on(|other| other == node);
            (node, self.bandwidth_of(&amounts, Bands::default()).bins)
        };
        Ok(chosen.map(over_time).collect())
    }

    /// What selected code did on such nodes, of the selected ones, per burst.
    fn amounts_on(&self, is_asked: impl Fn(Option<NodeId>) -> bool) -> Amounts {
        let parts = self.parts.keys().filter(|(site, part)| {
            is_asked(part.node)
                && self.selection.has_node(part.node)
                && self.selection.has_place(self.place(*site))
        });
        self.summed(parts.flat_map(|(site, part)| self.works_of_part(*site, *part)))
    }

    /// Traffic with memory of the selection: bytes, and GB per second of the time observed in it.
    #[must_use]
    pub fn moved(&self) -> [Metric; 2] {
        let elapsed = self.selection.observed(self.profile).seconds().max(1e-9);
        if let Err(why) = self.available() {
            return ["bytes", "GB/s"].map(|unit| Metric::unavailable(unit, why));
        }
        let both = self.all.read.plus(&self.all.write);
        let most = bandwidth::most_of_one_thread(self.profile);
        [(1.0, "bytes"), (elapsed * 1e9, "GB/s")]
            .map(|per| self.strata.opened(&both, per, Evidence::Estimated, most))
    }

    /// Bursts that speak for the selection; `None` where there are no figures from bursts.
    #[must_use]
    pub fn bursts(&self) -> Option<u64> {
        self.replayed.missing.is_none().then(|| self.strata.bursts() as u64)
    }

    /// Loads and stores that the program executed.
    #[must_use]
    pub fn executed(&self) -> ExecutedAccesses {
        let unavailable = |why: &str| Metric::unavailable("count", why);
        if let Err(why) = self.available() {
            return ExecutedAccesses { loads: unavailable(why), stores: unavailable(why) };
        }
        let count = |quantity: &Quantity| {
            self.strata.opened(quantity, (1.0, "count"), Evidence::Estimated, MOST_PER_SECOND)
        };
        ExecutedAccesses { loads: count(&self.all.loads), stores: count(&self.all.stores) }
    }

    /// What each observation of a burst represents.
    fn expansion(&self) -> &Expansion {
        self.strata.expansion()
    }

    /// Whether a burst is selected.
    fn has_burst(&self, burst: BurstId) -> bool {
        self.bursts.as_ref().is_none_or(|bursts| bursts.contains(&burst))
    }

    /// Whether a selected burst came to a site. What only other threads use, or at other times, makes no row.
    fn is_seen(&self, site: SiteIndex) -> bool {
        let id = |burst: &BurstWork| self.profile.recording.bursts[burst.burst].id;
        self.works_of(site).any(|(_, burst, _)| self.has_burst(id(burst)))
    }

    /// Samples of a thread in the selected time.
    fn cells_of(&self, thread: ThreadIndex) -> Cow<'_, [Cell]> {
        match self.selection.time() {
            None => Cow::Borrowed(self.profile.cells_of(thread)),
            Some(_) => {
                let cells = self.profile.cells(&self.selection).into_iter();
                cells.filter(|cell| cell.thread == thread).collect()
            }
        }
    }

    fn available(&self) -> Result<(), &str> {
        self.missing.as_deref().map_or(Ok(()), Err)
    }
}

/// Traffic over time with the memory of a node; `None`: memory whose node is not known.
pub type NodeBins = (Option<NodeId>, Vec<BandwidthBin>);

/// Largest amount with this unit that code without bursts does.
fn most_per_second(unit: &str) -> f64 {
    if unit == "bytes" { bandwidth::MOST_OF_ONE_THREAD * 1e9 } else { MOST_PER_SECOND }
}

/// Bytes, where they are a line at least; none otherwise.
fn any_line(bytes: f64) -> f64 {
    if bytes >= LINE { bytes } else { 0.0 }
}

/// What bursts did as a whole.
fn works(profile: &Profile<'_>, all: &[BurstWork], paths: &PathPaces) -> Vec<Work> {
    let (toll, slowest) = (toll(profile.recording), Slowest::of(profile.recording));
    let of_burst = all.chunk_by(|one, next| one.burst == next.burst);
    let whole = |works: &[BurstWork]| {
        let first = works.first()?;
        let burst = &profile.recording.bursts[first.burst];
        let most = works.iter().max_by(|a, b| a.instructions.total_cmp(&b.instructions));
        let seconds = running(burst).max(Nanos(1)).seconds();
        let instructions = works.iter().map(|work| work.instructions).sum();
        let accesses = works.iter().map(BurstWork::accesses).sum();
        let may_last = slowest.allows(seconds, instructions, accesses);
        let is_foreign = !may_last || !tells_rates(burst, toll);
        Some(Work {
            burst: burst.id,
            tid: burst.tid,
            time: burst.time,
            place: most?.place,
            seconds,
            instructions,
            least: works.iter().map(|work| least(work, paths)).sum(),
            records: works.iter().map(|work| work.records).sum(),
            stops: burst.entered() + 1,
            accesses,
            is_untimed: is_foreign || is_cold(burst),
            is_foreign,
        })
    };
    of_burst.filter_map(whole).collect()
}

fn too_few(profile: &Profile<'_>, strata: &Strata) -> Option<String> {
    let bursts = strata.bursts();
    if profile.recording.bursts.is_empty() {
        return Some(why_no_bursts(&profile.recording.run).to_owned());
    }
    if strata.seconds <= 0.0 {
        return Some("the CPU time of the program is not known".to_owned());
    }
    (bursts < FEWEST_IN_ALL).then(|| {
        let few = match bursts {
            0 => "no burst".to_owned(),
            1 => "only 1 burst".to_owned(),
            _ => format!("only {bursts} bursts"),
        };
        format!(
            "{few} recorded accesses for long enough, {FEWEST_IN_ALL} are needed: run the program \
             for longer"
        )
    })
}
