//! Loops that load the same addresses in each iteration, and what that costs.
//!
//! What for: figures of the second half of `repeated-loads`. Such a loop was timed with registers for these loads, in addition to
//! its no-miss time. What not: whether that is allowed (`findings::reloads`).
//!
//! ```text
//! core    the no-miss share of the loop's time               1 - waits of its function
//! kept    time with registers / no-miss time
//! saved   1 - core × kept - min(waits, exposed): the waits beyond the exposed ones are for these loads, after the stores to
//!           the same addresses, because both positions decide how soon a store is forwarded
//!           at least core × (1 - kept), and no more than 1 - core × kept - exposed: what it may wait for instead
//!           at most 1 - core × kept
//! vectors size of its other sequential accesses / 16 bytes, the smallest vector of this architecture
//! exposed latency of its accesses in sequence; of streams, which prefetchers run ahead of, the first lines of each page, and
//!           the transfer of the rest
//! ```
//! Where loops took longer alone than in the program, by `excess`, `kept` is larger by as much: a faster loop is compared with
//! the program's time.

use std::collections::{BTreeMap, HashMap, HashSet};

use base::BlockId;
use estimate::Bounds;
use facts::{Evidence, IterationTime, Metric, NoMissOutcome, NoReloadTime, Recording};
use x86::Kind;

use super::{NamedLocation, ReloadedLoop};
use crate::findings::reloads::free;
use crate::memory::{FunctionMemory, Memory, SiteWeight, seconds};
use crate::objects::{ObjectKind, Objects};
use crate::profile::Profile;
use crate::stack::{FunctionId, LocationId};
use crate::traced::{KeptLoop, SiteIndex, TracedCode};
use crate::types::SiteTypes;
use crate::weight::Weight;

/// Loops that surely spare less than this part of the program's time are not looked at any further.
const LEAST: f64 = 0.01;
/// Share of a stream's lines that no prefetcher brings: four of a page's 64. Prefetchers follow a stream from its second or
/// third miss on, and begin anew in each page (Intel optimization manual, "Data Prefetching"; AMD's, Family 19h).
const STARTS: f64 = 4.0 / 64.0;
/// Bytes that any processor of this architecture handles at once (SSE2).
const VECTOR: f64 = 16.0;
/// Fields that are named.
const MOST_FIELDS: usize = 3;

/// What is looked into.
pub(super) type Source<'a> = (&'a Profile<'a>, &'a TracedCode, &'a Memory<'a>, &'a Objects);

/// A loop, and how long its iterations take.
struct Timed<'a> {
    block: BlockId,
    code: &'a KeptLoop,
    function: &'a FunctionMemory,
    /// Upper bound of the share of its function's time that waits for memory, however fast its instructions are.
    exposed: f64,
    /// See `ReloadedLoop`.
    vectors: f64,
    weight: Weight,
    no_miss: Bounds,
    kept: Bounds,
}

/// Most CPU time first.
pub(super) fn reloaded(
    source: Source<'_>,
    functions: &[FunctionMemory],
    (is_row, is_stream): (impl Fn(SiteIndex) -> bool, impl Fn(SiteIndex) -> bool),
) -> Vec<ReloadedLoop> {
    let (profile, code, ..) = source;
    if code.kept.is_empty() {
        return Vec::new();
    }
    let mut timed = timed(profile, code, functions, (is_row, is_stream));
    let all = profile.counted_cpu_seconds().unwrap_or(0.0);
    timed.retain(|one| {
        let time = profile.cpu_scale().quantity(&one.weight).value.unwrap_or(0.0);
        time * one.saved().value.unwrap_or(0.0) / 100.0 >= LEAST * all
    });
    let asked: HashSet<BlockId> = timed.iter().map(|one| one.block).collect();
    let free = free(profile.recording, code, asked);
    timed.retain(|one| free.contains(&one.block));
    timed.sort_by_key(|one| std::cmp::Reverse(one.weight.amount()));
    let types = SiteTypes::read(profile.recording);
    timed.iter().filter_map(|one| one.figures(source, &types)).collect()
}

fn timed<'a>(
    profile: &Profile<'_>,
    code: &'a TracedCode,
    functions: &'a [FunctionMemory],
    (is_row, is_stream): (impl Fn(SiteIndex) -> bool, impl Fn(SiteIndex) -> bool),
) -> Vec<Timed<'a>> {
    let recording = profile.recording;
    let functions: HashMap<FunctionId, &FunctionMemory> =
        functions.iter().map(|one| (one.function, one)).collect();
    let weights = weights(profile, code);
    let found = recording.no_reload_times.iter().filter_map(|kept| {
        let NoReloadTime { block, repetitions, median, low, high } = *kept;
        let (all, code) = (code, code.kept.get(&block)?);
        let function = functions.get(&profile.stacks.compiled_at(*code.places.first()?))?;
        Some(Timed {
            block,
            code,
            function,
            exposed: exposed(function, &is_stream),
            vectors: vectors(all, block, code, &is_row),
            weight: *weights.get(&block)?,
            no_miss: no_miss_time(recording, block)?,
            kept: seconds(&IterationTime { repetitions, median, low, high }),
        })
    });
    found.collect()
}

fn no_miss_time(recording: &Recording, block: BlockId) -> Option<Bounds> {
    let of_loop = |one: &&facts::NoMissTime| one.block == block && one.path.is_none();
    match &recording.no_miss_times.iter().find(of_loop)?.outcome {
        NoMissOutcome::Measured(time) => Some(seconds(time)),
        NoMissOutcome::Refused(_) => None,
    }
}

/// Samples whose innermost instruction is in a loop.
fn weights(profile: &Profile<'_>, code: &TracedCode) -> HashMap<BlockId, Weight> {
    let places =
        code.kept.iter().flat_map(|(block, one)| one.places.iter().map(|at| (*at, *block)));
    let loops: HashMap<_, BlockId> = places.collect();
    let nodes = profile.recording.stack_nodes.iter().filter_map(|node| {
        let block = loops.get(&node.code_address())?;
        Some((profile.stacks.find(node.id)?, *block))
    });
    let nodes: HashMap<_, BlockId> = nodes.collect();
    let mut weights: HashMap<BlockId, Weight> = HashMap::new();
    for cell in profile.stack_cells().iter().filter(|cell| !cell.kernel) {
        if let Some(block) = cell.stack.and_then(|node| nodes.get(&node)) {
            weights.entry(*block).or_default().merge(&cell.weight);
        }
    }
    weights
}

fn exposed(function: &FunctionMemory, is_stream: impl Fn(SiteIndex) -> bool) -> f64 {
    let most = |metric: &Metric| metric.high.map_or(f64::INFINITY, |percent| percent / 100.0);
    let of_site =
        |site: &SiteWeight| most(&site.serial) * if is_stream(site.site) { STARTS } else { 1.0 };
    let site_by_site = function.sites.iter().map(of_site).sum::<f64>() + most(&function.of_reach);
    site_by_site.min(most(&function.serial))
}

/// Factor on the time with vector instructions, at best; 1 unless all other accesses of the loop are sequential.
fn vectors(
    all: &TracedCode,
    block: BlockId,
    code: &KeptLoop,
    is_row: impl Fn(SiteIndex) -> bool,
) -> f64 {
    let Some(block) = all.blocks.get(&block) else { return 1.0 };
    let kept = code.kept.accesses();
    let is_kept = |at: usize| kept.iter().any(|one| one.instruction == at);
    let others = block.accesses.iter().filter(|access| !is_kept(access.instruction));
    let bytes = others.map(|access| {
        let bytes = f64::from(all.sites[access.site.index()].access.bytes);
        if is_row(access.site) { bytes / VECTOR } else { 1.0 }
    });
    bytes.reduce(f64::max).unwrap_or(1.0).min(1.0)
}

impl Timed<'_> {
    /// Share of its time that it would save with registers, percent.
    fn saved(&self) -> Metric {
        let FunctionMemory { waits, excess, .. } = self.function;
        let share = |value: Option<f64>, unknown: f64| value.map_or(unknown, |value| value / 100.0);
        let no_miss = self.no_miss.best;
        // Both were timed in the same turns.
        let kept = self.kept.each(|time| time / no_miss * excess);
        let least = 1.0 - (1.0 - share(waits.low, 0.0)) * kept.high - self.exposed;
        let core = |waits: Option<f64>, unknown: f64| 1.0 - share(waits, unknown);
        let low = (core(waits.high, 1.0) * (1.0 - kept.high)).min(least);
        let waited = share(waits.value, 0.0);
        let best = 1.0 - (1.0 - waited) * kept.best - waited.min(self.exposed);
        let high = 1.0 - core(waits.high, 1.0) * kept.low;
        let percent = |part: f64| part.clamp(0.0, 1.0) * 100.0;
        let (low, best, high) = (percent(low), percent(best), percent(high));
        let interval = (low.min(best), high.max(best));
        Metric::with_interval(Evidence::Estimated, best, "percent", interval, waits.samples)
    }

    fn figures(&self, source: Source<'_>, types: &SiteTypes) -> Option<ReloadedLoop> {
        let (profile, code, ..) = source;
        let sites = self.sites(code);
        let nanos = |time: Bounds| {
            let interval = (time.low * 1e9, time.high * 1e9);
            Metric::with_interval(Evidence::Timed, time.best * 1e9, "ns", interval, 1)
        };
        let mut fields: Vec<String> = Vec::new();
        for site in &sites {
            let field = types.field_of(&code.sites[site.index()]);
            let name = types.field_name(field);
            if types.field(field).is_some() && !fields.iter().any(|known| known == name) {
                fields.push(name.to_owned());
            }
        }
        fields.truncate(MOST_FIELDS);
        let stores = |site: &SiteIndex| code.sites[site.index()].access.kind != Kind::Read;
        Some(ReloadedLoop {
            place: place(source, &sites)?,
            fields,
            time: profile.cpu_scale().quantity(&self.weight),
            saved: self.saved().into(),
            vectors: self.vectors,
            iteration: (nanos(self.no_miss), nanos(self.kept)),
            accesses: sites.len(),
            stores: sites.iter().any(stores),
        })
    }

    fn sites(&self, code: &TracedCode) -> Vec<SiteIndex> {
        let Some(block) = code.blocks.get(&self.block) else { return Vec::new() };
        let kept = self.code.kept.accesses();
        let is_kept = |at: usize| kept.iter().any(|one| one.instruction == at);
        let own = block.accesses.iter().filter(|access| is_kept(access.instruction));
        own.map(|access| access.site).collect()
    }
}

/// The line with most of them, and their object.
fn place(
    (profile, code, memory, objects): Source<'_>,
    sites: &[SiteIndex],
) -> Option<NamedLocation> {
    let mut lines: BTreeMap<LocationId, usize> = BTreeMap::new();
    for site in sites {
        let site = &code.sites[site.index()];
        *lines.entry(profile.stacks.place_at(site.instruction)).or_default() += 1;
    }
    let (place, _) = lines.into_iter().max_by_key(|(_, count)| *count)?;
    let object = memory.main_object(sites).map(|(id, _)| objects.get(id));
    let known = object.filter(|one| !matches!(one.kind, ObjectKind::Unknown | ObjectKind::Unseen));
    Some(NamedLocation {
        object: known.map(|one| one.name.clone()),
        ..NamedLocation::of(profile, place)
    })
}
