//! One pass over all bursts through the cache model.
//!
//! What for: what each burst did at each site, level by level, and which data each function uses. What not: what unknown outcomes
//! amount to (`model`).
//!
//! Assumptions: a burst starts with caches of unknown contents, and nothing is kept between bursts: a model that keeps its
//! contents would find lines that were evicted in the time between. In a summarised loop, an access whose addresses are no
//! progression (masked, repeated, 32-bit) enters after the loop, not interleaved with it.

use std::collections::{BTreeMap, HashMap};

use base::{BlockId, IndexMap, RemoteAddr};
use cachesim::{Hierarchy, Kind, LevelTally, LoopAccess, PageSize, SiteId, SiteTally, Tlb};
use estimate::Bounds;
use facts::Burst;
use facts::host::is_model;

use super::branches::Branches;
use super::code_regions::{Belonging, CodeRegion, CodeRegions};
use super::core_time::{loops, resolutions};
use super::footprint::Footprint;
use super::simulated::Simulated;
use super::times::{BINS, Times};
use super::work::{BurstWork, SiteWork, UnitWork, listed};
use crate::objects::{Objects, Pieces};
use crate::profile::Profile;
use crate::stack::FunctionId;
use crate::stalls::{Data, Stalls};
use crate::traced::{
    Damage, Execution, Run, SiteIndex, SiteName, Tool, TracedAccess, TracedBlock, TracedCode,
    stream, traced_bursts,
};

/// Outcomes of a site over all bursts.
#[derive(Clone, Debug, Default)]
pub(crate) struct SiteOutcomes {
    pub(crate) l1: LevelTally,
    pub(crate) l2: LevelTally,
    pub(crate) llc: LevelTally,
    /// Second-level TLB.
    pub(crate) stlb: LevelTally,
    /// Touches of followed lines by time (`times`).
    pub(crate) times: LevelTally,
    /// Number of followed lines that it was the first to store to, by the site that touched the line first.
    pub(crate) fetched_by: BTreeMap<SiteIndex, u64>,
    pub(crate) loads: u64,
    pub(crate) stores: u64,
}

impl SiteOutcomes {
    fn add(&mut self, tally: &SiteTally, pages: &LevelTally) {
        self.l1 += &tally.l1;
        self.l2 += &tally.l2;
        self.llc += &tally.llc;
        self.stlb += pages;
        self.loads += tally.loads;
        self.stores += tally.stores + tally.streaming_stores;
    }

    fn merge(&mut self, other: &SiteOutcomes) {
        self.l1 += &other.l1;
        self.l2 += &other.l2;
        self.llc += &other.llc;
        self.stlb += &other.stlb;
        self.times += &other.times;
        for (site, lines) in &other.fetched_by {
            *self.fetched_by.entry(*site).or_default() += lines;
        }
        self.loads += other.loads;
        self.stores += other.stores;
    }
}

/// Result of the pass.
#[derive(Debug, Default)]
pub(crate) struct Passed {
    /// In the order of bursts; within a burst, in the order in which it reached its regions.
    pub(crate) bursts: Vec<BurstWork>,
    pub(crate) sites: BTreeMap<SiteIndex, SiteOutcomes>,
    pub(crate) footprints: BTreeMap<CodeRegion, Footprint>,
    /// By number of a burst whose branches were replayed: the mispredictions of our own predictor in the same records.
    pub(crate) foreseen: BTreeMap<usize, f64>,
    pub(crate) damage: Damage,
}

/// Runs all bursts through `caches`, which forgets everything between them. `extra` sees them at the same time; its tools are returned.
pub(crate) fn pass<T: Tool + Send>(
    profile: &Profile<'_>,
    (code, places): (&TracedCode, &CodeRegions),
    caches: &Hierarchy,
    pages: (&Tlb, PageSize),
    objects: Option<(&Objects, Pieces)>,
    (extra, mut take): (impl Fn() -> T + Sync, impl FnMut(T::OfBurst) + Send),
) -> (Passed, Vec<T>) {
    let bursts: Vec<_> = traced_bursts(profile.recording, code).collect();
    let walker = || {
        let simulated =
            Simulated::new(caches.clone(), (pages.0.clone(), pages.1), code.sites.len(), objects);
        (Walker::new(profile, (code, places), simulated), extra())
    };
    let (damage, tools) = stream(profile.recording, code, &bursts, walker, |_, ((), of)| take(of));
    let (walkers, others): (Vec<Walker<'_>>, Vec<T>) = tools.into_iter().unzip();
    let mut passed = Passed { damage, ..Passed::default() };
    walkers.into_iter().for_each(|walker| passed.merge(walker.passed()));
    passed.bursts.sort_by_key(|work| work.burst);
    (passed, others)
}

impl Passed {
    /// Adds the lines that clock samples waited for to the data of their regions.
    pub(crate) fn note_sampled(
        &mut self,
        stalls: &Stalls,
        code: &TracedCode,
        places: &CodeRegions,
    ) {
        let sites = code.sites.iter().enumerate();
        let sites: HashMap<SiteName, SiteIndex> =
            sites.map(|(at, site)| (site.name(), SiteIndex::new(at))).collect();
        for waited in &stalls.waited {
            let place = sites.get(&waited.site).and_then(|site| places.of_site(*site));
            let footprint = place.and_then(|place| self.footprints.get_mut(&place));
            if let (Some(footprint), Data::Address(address)) = (footprint, waited.data) {
                footprint.sample(address.0 / u64::from(x86::LINE_BYTES));
            }
        }
    }

    /// Adds what was made of other bursts. The order makes no difference: all of it are sums.
    fn merge(&mut self, other: Passed) {
        self.bursts.extend(other.bursts);
        self.foreseen.extend(other.foreseen);
        for (site, outcomes) in other.sites {
            self.sites.entry(site).or_default().merge(&outcomes);
        }
        for (place, footprint) in other.footprints {
            self.footprints.entry(place).or_default().merge(footprint);
        }
    }
}

struct Walker<'a> {
    profile: &'a Profile<'a>,
    code: &'a TracedCode,
    places: &'a CodeRegions,
    /// What `clwb` does on the machine of the recording.
    write_back: Kind,
    simulated: Simulated<'a>,
    no_miss_times: HashMap<BlockId, Bounds>,
    /// Seconds that branches at the ends of loops wait.
    resolutions: HashMap<BlockId, f64>,
    branches: Branches,
    /// Records of bursts that were replayed; of this one, and how many of its records passed.
    replayed: HashMap<u32, u64>,
    of_burst: Option<u64>,
    records: u64,
    times: Times,
    /// By site, in this burst: first touches of followed lines by time.
    firsts: Vec<[u64; BINS]>,
    number: usize,
    /// By site, once it was touched; by position, because every access looks here.
    outcomes: Vec<Option<Box<SiteOutcomes>>>,
    passed: Passed,
    /// Work of this burst by region, and the current region.
    works: Vec<BurstWork>,
    current: usize,
    /// The loop that ran last, if the burst is still in it or in a function that it called.
    inside: Option<CodeRegion>,
    /// The last place in which samples fell.
    before: Option<CodeRegion>,
    /// By site of a function that several loops call, the loop that did last in this burst.
    called_in: IndexMap<SiteIndex, CodeRegion>,
    /// Accesses of a loop; kept for its memory.
    body: Vec<LoopAccess>,
}

impl Tool for Walker<'_> {
    type OfBurst = ();
    const CHASES: bool = true;

    fn begin(&mut self, burst: &Burst, number: usize) {
        self.number = number;
        self.simulated.begin(burst);
        self.times.restart();
        self.works.clear();
        self.inside = None;
        self.before = None;
        self.called_in.clear();
        self.branches.take(self.code);
        self.branches.begin(burst.id);
        self.of_burst = self.replayed.get(&burst.id.0).copied();
        self.records = 0;
        if self.of_burst.is_some() {
            self.passed.foreseen.insert(number, 0.0);
        }
    }

    fn execute(&mut self, block: &TracedBlock, execution: &Execution<'_>) {
        self.records += 1;
        if let Some(first) = block.accesses.first() {
            self.current = self.come_to(first.site);
        }
        self.divide(block, execution);
        if self.places.has_shared() {
            self.note_calls(block);
        }
        let Some(work) = self.works.get_mut(self.current) else { return };
        let length = block.ways.first().copied().unwrap_or(0) as f64;
        let whole = execution.iterations().saturating_sub(1) as f64;
        let instructions = whole * length + execution.executed() as f64;
        work.instructions += instructions;
        work.records += 1.0;
        let missed = self.branches.pass(block, execution);
        for (block, missed) in missed {
            match self.resolutions.get(&block) {
                Some(seconds) => work.resolved += f64::from(missed) * seconds,
                None => work.unresolved += f64::from(missed),
            }
        }
        let missed = missed.iter().map(|(_, missed)| f64::from(*missed)).sum::<f64>();
        work.mispredicted += missed;
        if self.of_burst.is_some_and(|records| self.records <= records) {
            *self.passed.foreseen.entry(self.number).or_default() += missed;
        }
        if let Some(time) = self.no_miss_times.get(&execution.block()) {
            let times = instructions / length.max(1.0);
            work.no_miss_time = work.no_miss_time.plus(time.times(times));
            work.no_miss_instructions += instructions;
        } else {
            work.slowest_cycles += execution.slowest(block);
        }
        for access in &block.accesses {
            let kind = self.code.sites[access.site.index()].access.kind;
            let loads = matches!(kind, x86::Kind::Read | x86::Kind::ReadWrite);
            if loads && execution.chases(access) {
                work.chased += execution.times(access.instruction) as f64;
            }
        }
        for one in &block.arithmetic {
            let operations = self.code.arithmetic[one.arithmetic.index()].flops.operations;
            work.flops += execution.times(one.instruction) as f64 * f64::from(operations);
        }
        let place = work.place;
        self.run(block, execution, place);
    }

    fn end(&mut self, burst: &Burst) {
        let mut works = std::mem::take(&mut self.works);
        let instructions: f64 = works.iter().map(|work| work.instructions).sum();
        let most = self.branches.take(self.code) / instructions.max(1.0);
        for work in &mut works {
            work.burst = self.number;
            // Which site they belong to is unknown.
            work.most_mispredicted = (most * work.instructions).max(work.mispredicted);
        }
        let divides = self.simulated.divides();
        let (outcomes, firsts) = (&mut self.outcomes, &mut self.firsts);
        let mut first_pages = 0;
        self.simulated.take(|site, part, tally, pages| {
            first_pages += pages.absent.total();
            outcomes[site.index()].get_or_insert_default().add(tally, pages);
            let place = self.called_in.get(&site).copied().or_else(|| self.places.of_site(site));
            let found = works.iter().position(|work| Some(work.place) == place);
            // Of blocks that overlap one may begin elsewhere.
            let Some(work) = works.get_mut(found.unwrap_or(0)) else { return };
            if work.sites.last().is_none_or(|before| before.site != site) {
                let firsts = std::mem::replace(&mut firsts[site.index()], [0; BINS]);
                let (firsts, parts) = (listed(&firsts), Vec::new());
                work.sites.push(SiteWork { site, done: UnitWork::default(), firsts, parts });
            }
            if let Some(work) = work.sites.last_mut() {
                work.done.add(tally);
                if divides {
                    let mut done = UnitWork::default();
                    done.add(tally);
                    work.parts.push((part, done));
                }
            }
        });
        let zeroed = zeroed(burst.faults, first_pages);
        works.iter_mut().for_each(|work| work.zeroed = zeroed);
        self.passed.bursts.append(&mut works);
    }
}

/// Of pages that a burst came to, the part that was zeroed in its page faults. One fault may be of a page that it does
/// not touch, or of the page in which it began. A burst is short: few of the pages that the TLB has lost it touches again. A fault for a page of a
/// file zeroes nothing, but maps up to 16 (`fault_around_bytes`): of such walks a sixteenth is missed.
fn zeroed(faults: Option<u32>, first_pages: u64) -> Bounds {
    let faults = f64::from(faults.unwrap_or(0));
    let part = |faults: f64| (faults / first_pages.max(1) as f64).clamp(0.0, 1.0);
    match faults > 0.0 {
        true => Bounds { best: part(faults), low: part(faults - 1.0), high: part(faults + 1.0) },
        false => Bounds::default(),
    }
}

impl<'a> Walker<'a> {
    fn new(
        profile: &'a Profile<'a>,
        (code, places): (&'a TracedCode, &'a CodeRegions),
        simulated: Simulated<'a>,
    ) -> Walker<'a> {
        Walker {
            profile,
            code,
            places,
            write_back: write_back(profile),
            simulated,
            no_miss_times: loops(profile.recording),
            resolutions: resolutions(profile.recording),
            branches: Branches::default(),
            replayed: profile
                .recording
                .run
                .branch_replays
                .iter()
                .map(|one| (one.burst, one.records))
                .collect(),
            of_burst: None,
            records: 0,
            times: Times::default(),
            firsts: vec![[0; BINS]; code.sites.len()],
            number: 0,
            outcomes: vec![None; code.sites.len()],
            passed: Passed::default(),
            works: Vec::new(),
            current: 0,
            inside: None,
            before: None,
            called_in: IndexMap::default(),
            body: Vec::new(),
        }
    }

    /// What its bursts did; their order makes no difference.
    fn passed(self) -> Passed {
        let touched = self.outcomes.into_iter().enumerate();
        let touched = touched.filter_map(|(at, outcomes)| Some((SiteIndex::new(at), *outcomes?)));
        let mut passed = Passed { sites: touched.collect(), ..self.passed };
        passed.footprints.values_mut().for_each(Footprint::thin_out);
        passed
    }

    /// Where an access is; in a function that several loops call, in the one that did.
    fn place(&self, site: SiteIndex) -> Option<CodeRegion> {
        let (place, belonging) = self.places.belonging(site)?;
        let of_other = match belonging {
            Belonging::Own => None,
            Belonging::Caller => self.inside,
            Belonging::Before => self.before,
        };
        Some(of_other.unwrap_or(place))
    }

    /// Which loop a block was in at its end, and the sites of functions that it called in it.
    fn note_calls(&mut self, block: &TracedBlock) {
        for access in &block.accesses {
            let Some((place, belonging)) = self.places.belonging(access.site) else { continue };
            if belonging == Belonging::Before {
                self.called_in.extend(self.before.map(|before| (access.site, before)));
                continue;
            }
            self.before = self.place(access.site);
            match (belonging, place) {
                (Belonging::Caller, _) => {
                    self.called_in.extend(self.inside.map(|inside| (access.site, inside)));
                }
                (_, CodeRegion::Loop(_)) => self.inside = Some(place),
                (_, CodeRegion::Function(_)) => self.inside = None,
            }
        }
    }

    /// The burst at an access: which of its works that is.
    fn come_to(&mut self, site: SiteIndex) -> usize {
        let Some(place) = self.place(site) else { return self.current };
        if self.works.get(self.current).is_some_and(|work| work.place == place) {
            return self.current;
        }
        if let Some(known) = self.works.iter().position(|work| work.place == place) {
            return known;
        }
        let function = match place {
            CodeRegion::Function(function) => function,
            CodeRegion::Loop(_) => function_of(self.profile, self.code, site),
        };
        self.passed.footprints.entry(place).or_default().begin();
        self.works.push(BurstWork::new(place, function));
        self.works.len() - 1
    }

    /// A block that leads on into another place, by a call: instructions from the first access there on are of that. One
    /// without an access is of the place before.
    fn divide(&mut self, block: &TracedBlock, execution: &Execution<'_>) {
        let place = |site| self.place(site);
        let of_block = block.accesses.first().map(|first| place(first.site));
        if block.accesses.iter().all(|access| Some(place(access.site)) == of_block) {
            return;
        }
        let length = block.ways.first().copied().unwrap_or(0);
        let mut rest = block.accesses.as_slice();
        while let Some(first) = rest.first() {
            let here = self.place(first.site);
            let same = |access: &&TracedAccess| self.place(access.site) == here;
            rest = &rest[rest.iter().take_while(same).count()..];
            let end = rest.first().map_or(length, |next| next.instruction);
            let own: u64 = (first.instruction..end).map(|at| execution.times(at)).sum();
            let to = self.come_to(first.site);
            self.works[to].instructions += own as f64;
            self.works[self.current].instructions -= own as f64;
        }
    }

    fn run(&mut self, block: &TracedBlock, execution: &Execution<'_>, place: CodeRegion) {
        let footprint = self.passed.footprints.entry(place).or_default();
        let loops = execution.iterations() > 1;
        self.body.clear();
        let mut partial = 0;
        for access in &block.accesses {
            let site = access.site;
            let kind = kind(self.code.sites[site.index()].access.kind, self.write_back);
            let id = SiteId(site.index() as u32);
            let outcomes = self.outcomes[site.index()].get_or_insert_default();
            let firsts = &mut self.firsts[site.index()];
            let times = &mut self.times;
            let accesses = block.accesses.len() as u64;
            let simulated = &mut self.simulated;
            let body = &mut self.body;
            let whole = execution.times(access.instruction);
            let is_last = access.instruction < execution.executed();
            execution.touches(access).for_each(|touch| {
                // Of some nothing is known, but these are few.
                let Some(run) = touch.run() else { return };
                let Run { start, stride, count, bytes } = run;
                run.for_lines(|line, iteration| {
                    footprint.touch(line);
                    let moment = (line, iteration * accesses);
                    if let Some(bin) = times.touch(moment, site, &mut outcomes.times) {
                        firsts[bin] += 1;
                    }
                    if kind.stores()
                        && let Some(first) = times.store(line)
                    {
                        *outcomes.fetched_by.entry(first).or_default() += 1;
                    }
                });
                let start = RemoteAddr(start);
                let one = LoopAccess { start, stride, bytes, kind, site: id };
                if loops && count == whole {
                    partial += usize::from(is_last);
                    body.push(one);
                } else if count == 1 {
                    simulated.access(site, start, bytes, kind);
                } else {
                    simulated.run(&[one], count, 0);
                }
            });
        }
        self.times.pass(execution.iterations().saturating_mul(block.accesses.len() as u64));
        if !self.body.is_empty() {
            self.simulated.run(&self.body, execution.iterations() - 1, partial);
        }
    }
}

/// The function of a block with an access: of the first one of a burst.
pub(super) fn began_in(
    profile: &Profile<'_>,
    code: &TracedCode,
    block: &TracedBlock,
) -> Option<FunctionId> {
    Some(function_of(profile, code, block.accesses.first()?.site))
}

fn function_of(profile: &Profile<'_>, code: &TracedCode, site: SiteIndex) -> FunctionId {
    let site = code.sites[site.index()];
    profile.stacks.compiled_at(site.instruction)
}

/// What `clwb` does here. It may keep the line or remove it (Intel SDM vol. 2, CLWB). Skylake-SP, Cascade Lake and Cooper Lake, which
/// share a model number, are reported to remove it as `clflushopt` does (J. Yang et al., "An Empirical Guide to the Behavior and Use
/// of Scalable Persistent Memory", FAST 2020); on an AMD EPYC 9004 a line was still in the cache after it, 100 cycles away.
fn write_back(profile: &Profile<'_>) -> Kind {
    match is_model("6-55", &profile.recording.run.host.family_model_stepping) {
        true => Kind::Flush,
        false => Kind::WriteBack,
    }
}

fn kind(kind: x86::Kind, write_back: Kind) -> Kind {
    match kind {
        x86::Kind::Read => Kind::Read,
        x86::Kind::Write => Kind::Write,
        x86::Kind::ReadWrite => Kind::ReadWrite,
        x86::Kind::StreamingRead => Kind::StreamingRead,
        x86::Kind::StreamingWrite => Kind::StreamingWrite,
        x86::Kind::Prefetch | x86::Kind::PrefetchWrite => Kind::Prefetch,
        x86::Kind::Flush => Kind::Flush,
        x86::Kind::WriteBack => write_back,
        // The line becomes the first to go: that is not modelled.
        x86::Kind::Demote => Kind::Prefetch,
    }
}
