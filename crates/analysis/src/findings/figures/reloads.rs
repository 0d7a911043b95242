//! Loops that load the same places in each iteration, and what that costs.
//!
//! What for: figures of the second half of `repeated-loads`. Such a loop was timed with registers for these places beside its
//! core floor. What not: whether that may be done (`findings::reloads`).
//!
//! ```text
//! core    what the loop's instructions need, of its time     1 - waits of its function
//! kept    time with registers / core floor
//! spared  1 - core × kept - min(waits, exposed): what it waits for beyond what is exposed it waits for these loads, behind the
//!           stores to their places, for how soon a store is forwarded depends on where both lie
//!           at least core × (1 - kept), and no more than 1 - core × kept - exposed: what it may wait for instead
//!           at most 1 - core × kept
//! vectors size of what else it accesses in a row / 16 bytes, the least vector of this architecture
//! exposed what its accesses take one after the other; of streams, which prefetchers run ahead of, the first lines of
//!         each page, and what memory takes to deliver the rest
//! ```
//! Where loops took longer alone than in the program, by `excess`, `kept` is larger by as much: the program's time is what a
//! quicker loop is compared with.

use std::collections::{BTreeMap, HashMap, HashSet};

use base::BlockId;
use facts::{Evidence, IterationTime, Metric, NoMissOutcome, NoReloadTime, Recording};
use x86::Kind;

use super::{ReloadedLoop, Where};
use crate::findings::reloads::free;
use crate::memory::{FunctionMemory, Memory, Seconds, SiteWeight, seconds};
use crate::objects::{ObjectKind, Objects};
use crate::profile::Profile;
use crate::stack::{FunctionId, PlaceId};
use crate::traced::{KeptLoop, SiteIndex, TracedCode};
use crate::types::SiteTypes;
use crate::weight::Weight;

/// Loops that surely spare less than this part of the program's time are not looked at any further.
const LEAST: f64 = 0.01;
/// Of the lines of a stream those that nothing fetches before: four of a page's 64. Prefetchers follow a stream from its
/// second or third miss on, and begin anew in each page (Intel optimization manual, "Data Prefetching"; AMD's, Family 19h).
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
    /// What its function may wait for memory at most, however quick its instructions are, of its time.
    exposed: f64,
    /// See `ReloadedLoop`.
    vectors: f64,
    weight: Weight,
    floor: Seconds,
    kept: Seconds,
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
        time * one.spared().value.unwrap_or(0.0) / 100.0 >= LEAST * all
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
        let (module, offset) = *code.places.first()?;
        let function = functions.get(&profile.stacks.compiled_at(module, offset))?;
        Some(Timed {
            block,
            code,
            function,
            exposed: exposed(function, &is_stream),
            vectors: vectors(all, block, code, &is_row),
            weight: *weights.get(&block)?,
            floor: floor(recording, block)?,
            kept: seconds(&IterationTime { repetitions, median, low, high }),
        })
    });
    found.collect()
}

fn floor(recording: &Recording, block: BlockId) -> Option<Seconds> {
    let of_loop = |floor: &&facts::NoMissTime| floor.block == block && floor.path.is_none();
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
        let block = loops.get(&(node.module, node.offset))?;
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

/// At best; only a loop that accesses nothing but rows beside what it loads again.
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
    /// Of its time what it would not take with registers, percent.
    fn spared(&self) -> Metric {
        let FunctionMemory { waits, excess, .. } = self.function;
        let share = |value: Option<f64>, unknown: f64| value.map_or(unknown, |value| value / 100.0);
        let (floor, kept) = (self.floor, self.kept);
        // Both were timed in the same turns.
        let kept = [kept.0, kept.1, kept.2].map(|time| time / floor.0 * excess);
        let least = 1.0 - (1.0 - share(waits.low, 0.0)) * kept[2] - self.exposed;
        let core = |waits: Option<f64>, unknown: f64| 1.0 - share(waits, unknown);
        let low = (core(waits.high, 1.0) * (1.0 - kept[2])).min(least);
        let waited = share(waits.value, 0.0);
        let likely = 1.0 - (1.0 - waited) * kept[0] - waited.min(self.exposed);
        let high = 1.0 - core(waits.high, 1.0) * kept[1];
        let percent = |part: f64| part.clamp(0.0, 1.0) * 100.0;
        let (low, likely, high) = (percent(low), percent(likely), percent(high));
        let interval = (low.min(likely), high.max(likely));
        Metric::with_interval(Evidence::Estimated, likely, "percent", interval, waits.samples)
    }

    fn figures(&self, source: Source<'_>, types: &SiteTypes) -> Option<ReloadedLoop> {
        let (profile, code, ..) = source;
        let sites = self.sites(code);
        let nanos = |(likely, low, high): Seconds| {
            let interval = (low * 1e9, high * 1e9);
            Metric::with_interval(Evidence::Timed, likely * 1e9, "ns", interval, 1)
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
            spared: self.spared().into(),
            vectors: self.vectors,
            iteration: (nanos(self.floor), nanos(self.kept)),
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
fn place((profile, code, memory, objects): Source<'_>, sites: &[SiteIndex]) -> Option<Where> {
    let mut lines: BTreeMap<PlaceId, usize> = BTreeMap::new();
    for site in sites {
        let site = &code.sites[site.index()];
        *lines.entry(profile.stacks.place_at(site.module, site.offset)).or_default() += 1;
    }
    let (place, _) = lines.into_iter().max_by_key(|(_, count)| *count)?;
    let object = memory.main_object(sites).map(|(id, _)| objects.get(id));
    let known = object.filter(|one| !matches!(one.kind, ObjectKind::Unknown | ObjectKind::Unseen));
    Some(Where { object: known.map(|one| one.name.clone()), ..Where::of(profile, place) })
}
