//! One pass over all bursts through the cache model.
//!
//! What for: what each burst did at each site, level by level, and which data each function goes through. What not: what
//! unknown outcomes come to (`model`).
//!
//! Assumptions: a burst starts with caches of unknown contents, and nothing is kept between bursts (a model that keeps
//! its contents would find lines that the time between has long thrown out). Of a loop that is summarised, an access
//! whose addresses are no progression (masked, repeated, 32-bit) goes in behind the loop, not interleaved with it.

use std::collections::{BTreeMap, HashMap};

use base::{BlockId, RemoteAddr};
use cachesim::{Hierarchy, Kind, LevelTally, LoopAccess, PageSize, SiteId, SiteTally, Tlb};
use facts::{Burst, Recording};

use super::bound::floors;
use super::footprint::Footprint;
use super::simulated::Simulated;
use super::times::{BINS, Times};
use super::work::{BurstWork, PartWork, SiteWork, listed};
use crate::objects::{Objects, Pieces};
use crate::profile::Profile;
use crate::stack::FunctionId;
use crate::traced::{
    CHASE_DEPTH, Damage, Depths, Execution, Observer, SiteIndex, Touch, TracedBlock, TracedCode,
    replay_these, traced_bursts,
};

const LINE: u64 = x86::LINE_BYTES as u64;
/// Lines that are looked at in all bursts together: two or three seconds of work. More bursts than that needs are left out,
/// evenly.
const MOST_LINES: u64 = 30_000_000;
/// A longer run is not looked at line by line for the footprint.
const LONGEST: u64 = 1 << 24;

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
    /// Accesses that were as far from the one before as that from its own.
    pub(crate) regular: u64,
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
}

/// Result of the pass.
#[derive(Debug, Default)]
pub(crate) struct Passed {
    pub(crate) bursts: Vec<BurstWork>,
    pub(crate) sites: BTreeMap<SiteIndex, SiteOutcomes>,
    pub(crate) footprints: HashMap<FunctionId, Footprint>,
    pub(crate) damage: Damage,
    /// Bursts that were not looked at, because those before were work enough.
    pub(crate) left_out: usize,
}

/// Runs all bursts through `caches`, which forgets everything between them.
pub(crate) fn pass(
    profile: &Profile<'_>,
    code: &TracedCode,
    caches: Hierarchy,
    pages: (Tlb, PageSize),
    objects: Option<(&Objects, Pieces)>,
) -> Passed {
    let recording: &Recording = profile.recording;
    let numbers = recording.bursts.iter().enumerate().map(|(number, burst)| (burst.id, number));
    let mut walker = Walker {
        profile,
        code,
        simulated: Simulated::new(caches, pages, code.sites.len(), objects),
        floors: floors(recording),
        depths: Depths::default(),
        times: Times::default(),
        firsts: vec![[0; BINS]; code.sites.len()],
        last: vec![Step::default(); code.sites.len()],
        numbers: numbers.collect(),
        outcomes: vec![None; code.sites.len()],
        passed: Passed::default(),
        work: None,
        seen: 0,
        lines: 0,
        body: Vec::new(),
    };
    let bursts = evenly_spread(traced_bursts(recording).collect());
    let all = bursts.len();
    let damage = replay_these(recording, code, &mut walker, bursts.into_iter());
    let Walker { mut passed, seen, outcomes, .. } = walker;
    passed.bursts.sort_by_key(|work| work.burst);
    let touched = outcomes.into_iter().enumerate();
    let touched = touched.filter_map(|(at, outcomes)| Some((SiteIndex::new(at), *outcomes?)));
    Passed { damage, sites: touched.collect(), left_out: all - seen, ..passed }
}

/// In an order of which each beginning is spread evenly over all (van der Corput's sequence: bits of the position reversed).
fn evenly_spread(bursts: Vec<&Burst>) -> Vec<&Burst> {
    let mut numbered: Vec<(u32, &Burst)> = (0u32..).map(u32::reverse_bits).zip(bursts).collect();
    numbered.sort_by_key(|(position, _)| *position);
    numbered.into_iter().map(|(_, burst)| burst).collect()
}

struct Walker<'a> {
    profile: &'a Profile<'a>,
    code: &'a TracedCode,
    simulated: Simulated<'a>,
    floors: HashMap<BlockId, (f64, f64, f64)>,
    depths: Depths,
    times: Times,
    /// Of each site, in this burst: first touches of followed lines by time.
    firsts: Vec<[u64; BINS]>,
    last: Vec<Step>,
    numbers: HashMap<base::BurstId, usize>,
    /// Of each site, once it was touched; by position, for every access looks here.
    outcomes: Vec<Option<Box<SiteOutcomes>>>,
    passed: Passed,
    work: Option<BurstWork>,
    /// Bursts and lines that went by.
    seen: usize,
    lines: u64,
    /// Accesses of a loop; kept for its memory.
    body: Vec<LoopAccess>,
}

impl Observer for Walker<'_> {
    fn is_full(&self) -> bool {
        self.lines >= MOST_LINES
    }

    fn begin(&mut self, burst: &Burst) {
        self.seen += 1;
        self.simulated.begin(burst);
        self.times.restart();
        self.depths = Depths::default();
        self.work = None;
    }

    fn execute(&mut self, block: &TracedBlock, execution: &Execution<'_>) {
        if self.work.is_none() {
            self.work = self.first(block);
        }
        let Some(work) = &mut self.work else { return };
        let length = block.ways.first().copied().unwrap_or(0) as f64;
        let whole = execution.iterations().saturating_sub(1) as f64;
        let instructions = whole * length + execution.executed() as f64;
        work.instructions += instructions;
        work.records += 1.0;
        if let Some((likely, low, high)) = self.floors.get(&execution.block()) {
            let (times, floor) = (instructions / length.max(1.0), &mut work.floor);
            *floor = (floor.0 + likely * times, floor.1 + low * times, floor.2 + high * times);
            work.floor_instructions += instructions;
        }
        for (access, depth) in block.accesses.iter().zip(&block.chains.accesses) {
            let kind = self.code.sites[access.site.index()].access.kind;
            let loads = matches!(kind, x86::Kind::Read | x86::Kind::ReadWrite);
            if loads && depth.at(&self.depths) >= CHASE_DEPTH {
                work.chased += execution.times(access.instruction) as f64;
            }
        }
        self.depths = block.chains.leave(&self.depths);
        for one in &block.arithmetic {
            let operations = self.code.arithmetic[one.arithmetic.index()].flops.operations;
            work.flops += execution.times(one.instruction) as f64 * f64::from(operations);
        }
        let function = work.function;
        self.run(block, execution, function);
    }

    fn end(&mut self, burst: &Burst) {
        let Some(mut work) = self.work.take() else { return };
        let Some(number) = self.numbers.get(&burst.id) else { return };
        work.burst = *number;
        let divides = self.simulated.divides();
        let (outcomes, firsts, last) = (&mut self.outcomes, &mut self.firsts, &mut self.last);
        self.simulated.take(|site, part, tally, pages| {
            outcomes[site.index()].get_or_insert_default().add(tally, pages);
            if work.sites.last().is_none_or(|before| before.site != site) {
                last[site.index()] = Step::default();
                let firsts = std::mem::replace(&mut firsts[site.index()], [0; BINS]);
                work.sites.push(SiteWork::new(site, listed(&firsts)));
            }
            if let Some(work) = work.sites.last_mut() {
                work.add(tally);
                work.parts.extend(divides.then(|| PartWork::new(part, tally)));
            }
        });
        self.passed.bursts.push(work);
    }
}

impl Walker<'_> {
    /// The burst at its first block with an access: that is where it began.
    fn first(&mut self, block: &TracedBlock) -> Option<BurstWork> {
        let site = self.code.sites[block.accesses.first()?.site.index()];
        let function = self.profile.stacks.compiled_at(site.module, site.offset);
        self.passed.footprints.entry(function).or_default().begin();
        Some(BurstWork {
            burst: 0,
            function,
            instructions: 0.0,
            records: 0.0,
            flops: 0.0,
            floor: (0.0, 0.0, 0.0),
            floor_instructions: 0.0,
            chased: 0.0,
            sites: Vec::new(),
        })
    }

    fn run(&mut self, block: &TracedBlock, execution: &Execution<'_>, function: FunctionId) {
        let footprint = self.passed.footprints.entry(function).or_default();
        let loops = execution.iterations() > 1;
        self.body.clear();
        let mut partial = 0;
        for access in &block.accesses {
            let site = access.site;
            let kind = kind(self.code.sites[site.index()].access.kind);
            let id = SiteId(site.index() as u32);
            let outcomes = self.outcomes[site.index()].get_or_insert_default();
            let firsts = &mut self.firsts[site.index()];
            let last = &mut self.last[site.index()];
            let (times, lines) = (&mut self.times, &mut self.lines);
            let accesses = block.accesses.len() as u64;
            let simulated = &mut self.simulated;
            let body = &mut self.body;
            let whole = execution.times(access.instruction);
            let is_last = access.instruction < execution.executed();
            execution.touches(access, |touch| {
                let (start, stride, count, bytes) = match touch {
                    Touch::Run { start, stride, count, bytes } => (start, stride, count, bytes),
                    Touch::AtLeast { start, bytes } => (start, 0, 1, bytes),
                    // Nothing is known of these; they are few.
                    Touch::Unknown { .. } => return,
                };
                for_lines((start, stride, count, bytes), |line, iteration| {
                    *lines += 1;
                    footprint.touch(line);
                    let first = times.touch(line, iteration * accesses, &mut outcomes.times);
                    if let Some(bin) = first {
                        firsts[bin] += 1;
                    }
                });
                outcomes.regular += steady(last, start, stride, count);
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

/// Where an access was last, and how far that was from the one before.
#[derive(Clone, Copy, Debug, Default)]
struct Step {
    at: u64,
    distance: i64,
}

/// How many of `count` accesses continue in the distance of those before.
fn steady(last: &mut Step, start: u64, stride: i64, count: u64) -> u64 {
    let distance = start.wrapping_sub(last.at).cast_signed();
    let continues = u64::from(distance == last.distance);
    let end = start.wrapping_add(stride.cast_unsigned().wrapping_mul(count - 1));
    *last = Step { at: end, distance: if count > 1 { stride } else { distance } };
    continues + (count - 1)
}

/// Gives the lines of a run (start, stride, count, bytes) with the iteration that touches each first, in order of address
/// where the run stays within lines.
fn for_lines((start, stride, count, bytes): (u64, i64, u64, u32), mut take: impl FnMut(u64, u64)) {
    let last = u64::from(bytes.max(1)) - 1;
    let each = stride.unsigned_abs();
    if each <= LINE {
        let way = each.saturating_mul(count - 1);
        let low = if stride < 0 { start.wrapping_sub(way) } else { start };
        let high = low.saturating_add(way).saturating_add(last);
        for line in (low / LINE..=high / LINE).take(LONGEST as usize) {
            let iteration = (line * LINE).saturating_sub(low).checked_div(each).unwrap_or(0);
            take(line, if stride < 0 { (count - 1).saturating_sub(iteration) } else { iteration });
        }
        return;
    }
    for iteration in 0..count.min(LONGEST) {
        let address = start.wrapping_add(stride.cast_unsigned().wrapping_mul(iteration));
        take(address / LINE, iteration);
        if (address % LINE) + last >= LINE {
            take(address.wrapping_add(last) / LINE, iteration);
        }
    }
}

fn kind(kind: x86::Kind) -> Kind {
    match kind {
        x86::Kind::Read => Kind::Read,
        x86::Kind::Write => Kind::Write,
        x86::Kind::ReadWrite => Kind::ReadWrite,
        x86::Kind::StreamingRead => Kind::StreamingRead,
        x86::Kind::StreamingWrite => Kind::StreamingWrite,
        x86::Kind::Prefetch | x86::Kind::PrefetchWrite => Kind::Prefetch,
        // The line is written out, and stays (`clwb`) or becomes the first to go: neither is modelled.
        x86::Kind::Flush => Kind::Flush,
        x86::Kind::WriteBack | x86::Kind::Demote => Kind::Prefetch,
    }
}
