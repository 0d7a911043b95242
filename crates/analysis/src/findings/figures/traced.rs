//! Figures of traced accesses: hot functions with their sites, and functions that repeat their loads.
//!
//! What not: conditions. Assumption of repeated loads: loads relative to the stack pointer mean nothing (spilled registers,
//! return addresses), and loads at fixed addresses may be constants of the program text. So a function counts as repeating only
//! if one of its loads goes through a pointer or to thread-local data.

use std::cell::OnceCell;
use std::collections::{BTreeMap, HashMap, HashSet};

use facts::{Analysis, Evidence, Metric};
use x86::{Gpr, Kind, Segment};

use super::reloads::reloaded;
use super::walks::walk;
use super::{HotFunction, HotSite, NamedLocation, RepeatedFunction, Traced, Walk};
use crate::accesses::{AccessRow, Pattern, line_uses};
use crate::findings::NotJudged;
use crate::findings::bandwidth;
use crate::findings::reread::Stored;
use crate::findings::steps::Steps;
use crate::findings::strided::walks;
use crate::hotspots::{Key, hotspots};
use crate::memory::{ExecutedAccesses, FunctionMemory, Memory, OfObjects, SiteWeight, main_object};
use crate::objects::{ObjectKind, Objects};
use crate::profile::Profile;
use crate::reuse::curves;
use crate::selection::Selection;
use crate::stack::{Function, FunctionId, LocationId};
use crate::traced::{SiteIndex, SiteName, TracedAccess, TracedCode, traced_bursts};
use crate::weight::Weight;

/// A load repeats itself if this share of its successive addresses is the same.
const SAME: f64 = 0.98;
/// Bytes in a row, on average, from which on prefetchers run ahead: they begin anew in each page.
const STREAM: u64 = 4096;
/// An object that accesses are about has this part of them, percent.
const MAIN: f64 = 50.0;
/// A function counts as untimed if less than this share of its instructions has a measured no-miss time, percent.
const MOSTLY_TIMED: f64 = 50.0;
/// What would show how long such a function waits.
const UNTIMED: &str = "the no-miss time of its loops could not be measured: check whether the time per element \
                falls with an input that fits into the cache";
/// Executions per burst of a helper that is called in a loop.
const LOOP: f64 = 100.0;

pub(super) fn traced(
    profile: &Profile<'_>,
    code: &TracedCode,
    memory: &Memory<'_>,
    objects: &Objects,
) -> Result<Traced, NotJudged> {
    let (whole, functions) = memory.functions().map_err(|why| missing(profile, why))?;
    let asked = memory.asked();
    let (rows, steps) = (asked.accesses.rows.clone(), &asked.steps);
    let by_site: HashMap<SiteName, AccessRow> =
        rows.into_iter().filter_map(|row| row.site.map(|site| (site.name(), row))).collect();
    let bursts = traced_bursts(profile.recording, code).count() as u64;
    let is_row = |site: SiteIndex| {
        let row = by_site.get(&code.sites[site.index()].name());
        row.is_some_and(|row| row.pattern == Pattern::Unit)
    };
    let is_stream = |site: SiteIndex| {
        let steps = &steps[site.index()];
        let runs = steps.restarts.all.saturating_add(bursts).max(1);
        let bytes = u64::from(code.sites[site.index()].access.bytes);
        is_row(site) && steps.executions.saturating_mul(bytes) / runs >= STREAM
    };
    let reloaded = reloaded((profile, code, memory, objects), &functions, (is_row, is_stream));
    let bound = memory.bound();
    let class = Some(memory.verdict(&bound)).and_then(|found| Some((found.class?, found.why)));
    let of_objects = (0..code.sites.len()).map(|_| OnceCell::new()).collect();
    let sites = Sites { profile, code, memory, objects, of_objects, by_site, steps };
    let mut functions: Vec<Numbered> = functions.iter().map(|one| sites.function(one)).collect();
    let mut whole = sites.function(&whole);
    if let Ok(bound) = &bound {
        let seconds = whole.figures.time.value.unwrap_or(0.0);
        wait_no_longer(&bound.memory, seconds, functions.iter_mut().chain([&mut whole]));
    }
    sites.add_walks(functions.iter_mut().chain([&mut whole]));
    sites.add_uses(&mut functions);
    sites.take_off_reread(functions.iter_mut().chain([&mut whole]));
    // Where the whole program fires, no function is asked.
    match bandwidth::is_probable(&whole.figures) {
        true => sites.add_fitting(&mut [&mut whole]),
        false => {
            let asked = functions.iter_mut().filter(|one| bandwidth::is_probable(&one.figures));
            sites.add_fitting(&mut asked.collect::<Vec<_>>());
        }
    }
    Ok(Traced {
        whole: Some(whole.figures),
        functions: functions.into_iter().map(|one| one.figures).collect(),
        repeated: sites.repeated(),
        reloaded,
        class,
        memory_bound: bound.ok().map(|bound| bound.memory),
        ceiling: ceiling(profile, memory),
        past_caches: memory.past_caches(),
    })
}

/// No function waits longer than the whole program of so many seconds, of which clock samples tell more (`memory::bound`).
fn wait_no_longer<'n>(bound: &Metric, seconds: f64, all: impl Iterator<Item = &'n mut Numbered>) {
    let Some(high) = bound.high else { return };
    for one in all {
        let HotFunction { time, waits, .. } = &mut one.figures;
        if let Some(time) = time.value.filter(|time| *time > 0.0) {
            *waits = waits.clone().map(|share| share.min(high * seconds / time));
        }
    }
}

/// An analysis that takes no bursts says so.
fn missing(profile: &Profile<'_>, why: String) -> NotJudged {
    match profile.recording.run.analysis {
        Analysis::MemoryAccess => NotJudged::Open(why),
        other => NotJudged::OtherAnalysis(format!(
            "`fathom collect {}` traces no accesses: use `fathom run`",
            other.name()
        )),
    }
}

/// Accesses × the latency of memory, over CPU time.
fn ceiling(profile: &Profile<'_>, memory: &Memory<'_>) -> Option<f64> {
    let calibration = profile.calibration()?;
    let nanos = calibration.dram_latency.as_ref()?.high?;
    let ExecutedAccesses { loads, stores } = memory.executed();
    let seconds = profile.counted_cpu_seconds().filter(|seconds| *seconds > 0.0)?;
    Some((loads.high? + stores.high?) * nanos * 1e-9 / seconds * 100.0)
}

/// A function with its number and those of its sites.
struct Numbered {
    function: FunctionId,
    sites: Vec<SiteIndex>,
    figures: HotFunction,
}

struct Sites<'a> {
    profile: &'a Profile<'a>,
    code: &'a TracedCode,
    memory: &'a Memory<'a>,
    objects: &'a Objects,
    /// By site, what it has of each object, once somebody asked.
    of_objects: Vec<OnceCell<OfObjects>>,
    by_site: HashMap<SiteName, AccessRow>,
    steps: &'a [Steps],
}

impl Sites<'_> {
    fn place(&self, site: SiteIndex) -> LocationId {
        let site = &self.code.sites[site.index()];
        self.profile.stacks.place_at(site.instruction)
    }

    fn function(&self, memory: &FunctionMemory) -> Numbered {
        let function = memory.function;
        let found = memory.sites.iter().filter_map(|one| Some((one.site, self.site(one)?)));
        let (numbers, sites): (Vec<SiteIndex>, Vec<HotSite>) = found.unzip();
        let Function { name, file, .. } = self.profile.stacks.functions[function.index()].clone();
        let heaviest = sites.first().map(|site| site.place.clone());
        let (id, name) = (Some(function), Some(name));
        let own = NamedLocation { id, function: name, file, ..NamedLocation::default() };
        let place = heaviest.filter(|place| place.same_function(&own)).unwrap_or(own);
        let object = self.object(&numbers).0;
        let figures = HotFunction {
            place: NamedLocation { object, ..place },
            time: memory.time.clone(),
            waits: match memory.timed_percent < MOSTLY_TIMED && memory.waits.low < memory.waits.high
            {
                true => memory.waits.clone().sharper_by(UNTIMED),
                false => memory.waits.clone(),
            },
            of_reach: memory.of_reach.clone(),
            overwritten: memory.overwritten.clone(),
            serial: memory.serial.clone(),
            fitting: Metric::unavailable("bytes", "it does not saturate the bandwidth"),
            sites,
        };
        Numbered { function, sites: numbers, figures }
    }

    /// The cache that would hold what each function comes back to. Reuse takes as long as all the rest: one pass, and only
    /// for who asks.
    fn add_fitting(&self, functions: &mut [&mut Numbered]) {
        if functions.is_empty() {
            return;
        }
        let asked: Vec<FunctionId> = functions.iter().map(|one| one.function).collect();
        let row_of = |site: usize| {
            let place = self.place(SiteIndex::new(site));
            let function = self.profile.stacks.places[place.index()].function;
            asked.iter().position(|one| *one == function)
        };
        let row_of_site: Vec<_> = (0..self.code.sites.len()).map(row_of).collect();
        let curves = curves(self.profile, self.code, &row_of_site, asked.len());
        for (function, curve) in functions.iter_mut().zip(curves) {
            function.figures.fitting = curve.fitting();
        }
    }

    fn site(&self, weight: &SiteWeight) -> Option<HotSite> {
        let index = weight.site;
        let site = &self.code.sites[index.index()];
        let row = self.by_site.get(&site.name())?;
        let kind = site.access.kind;
        let (object, of_object) = self.object(&[index]);
        Some(HotSite {
            place: NamedLocation { object, ..NamedLocation::of(self.profile, self.place(index)) },
            reads: matches!(kind, Kind::Read | Kind::ReadWrite),
            writes: matches!(kind, Kind::Write | Kind::ReadWrite),
            pattern: row.pattern,
            stride_share: row.stride_share.clone(),
            bytes: f64::from(site.access.bytes),
            line_use: row.line_use.clone(),
            used_together: row.line_use.clone(),
            share: weight.share.clone(),
            walks: weight.walks.clone(),
            restarts: self.steps[index.index()].restarts,
            walk: None,
            of_object,
        })
    }

    /// The object that accesses are about, and its part of them; of classes of what is left over those with a name.
    fn object(&self, sites: &[SiteIndex]) -> (Option<String>, Metric) {
        let of = |site: &SiteIndex| {
            let found = &self.of_objects[site.index()];
            found.get_or_init(|| self.memory.objects_of(*site)).iter().copied()
        };
        let main = main_object(sites.iter().flat_map(of));
        let main = main.map(|(id, percent)| (self.objects.get(id), percent));
        let known = |kind| !matches!(kind, ObjectKind::Unknown | ObjectKind::Unseen);
        match main.filter(|(object, percent)| known(object.kind) && *percent >= MAIN) {
            Some((object, percent)) => (
                Some(object.name.clone()),
                Metric {
                    evidence: Some(Evidence::Simulated),
                    ..Metric::counted(percent, "percent")
                },
            ),
            None => (None, Metric::unavailable("percent", "no single object is known for it")),
        }
    }

    /// Miss ratios take as long as all the rest: one pass, and only if some site walks across lines.
    fn add_walks<'b>(&self, functions: impl Iterator<Item = &'b mut Numbered>) {
        let mut walking: Vec<(SiteIndex, &mut HotSite)> = functions
            .flat_map(|one| one.sites.iter().copied().zip(&mut one.figures.sites))
            .filter(|(_, site)| walks(site).is_some())
            .collect();
        let mut sites: Vec<SiteIndex> = walking.iter().map(|(number, _)| *number).collect();
        sites.sort_unstable();
        sites.dedup();
        if sites.is_empty() {
            return;
        }
        let mut row_of_site = vec![None; self.code.sites.len()];
        for (row, site) in sites.iter().enumerate() {
            row_of_site[site.index()] = Some(row);
        }
        let curves = curves(self.profile, self.code, &row_of_site, sites.len());
        let found: Vec<Walk> = walking
            .iter()
            .map(|(number, site)| {
                let curve = &curves[sites.partition_point(|one| one < number)];
                walk(self.profile, curve, &self.steps[number.index()], site.bytes)
            })
            .collect();
        for ((_, site), walk) in walking.iter_mut().zip(found) {
            site.walk = Some(walk);
        }
    }

    /// Fields of one record share lines, or lie in several: only all of them together tell. One pass, where there are such.
    fn add_uses(&self, functions: &mut [Numbered]) {
        let mut rows: BTreeMap<(FunctionId, i64), usize> = BTreeMap::new();
        let mut row_of_site = vec![None; self.code.sites.len()];
        for (site, one) in functions.iter().flat_map(|one| one.sites.iter().zip(&one.figures.sites))
        {
            let Some(stride) = one.step() else { continue };
            let instruction = self.code.sites[site.index()].instruction;
            let new = rows.len();
            let key = (self.profile.stacks.compiled_at(instruction), stride);
            row_of_site[site.index()] = Some(*rows.entry(key).or_insert(new));
        }
        if rows.is_empty() {
            return;
        }
        let uses = line_uses(self.profile, self.code, &row_of_site, rows.len());
        for one in functions {
            for (site, figures) in one.sites.iter().zip(&mut one.figures.sites) {
                if let Some(row) = row_of_site[site.index()] {
                    figures.used_together.clone_from(&uses[row]);
                }
            }
        }
    }

    /// What is stored and soon read again would be fetched then.
    fn take_off_reread<'b>(&self, functions: impl Iterator<Item = &'b mut Numbered>) {
        let fetches =
            |one: &&mut Numbered| one.figures.overwritten.value.is_some_and(|part| part > 0.0);
        let mut functions: Vec<&mut Numbered> = functions.filter(fetches).collect();
        if functions.is_empty() {
            return;
        }
        let stored = &self.memory.asked().stored;
        for one in &mut functions {
            let sums = one.sites.iter().fold((0, 0), |(lines, again), site| {
                let Stored { lines: more, read_again } = stored[site.index()];
                (lines + more, again + read_again)
            });
            let kept = 1.0 - sums.1 as f64 / f64::max(sums.0 as f64, 1.0);
            one.figures.overwritten = one.figures.overwritten.clone().map(|part| part * kept);
        }
    }

    fn repeated(&self) -> Vec<RepeatedFunction> {
        let stacks = &self.profile.stacks;
        let mut loads: BTreeMap<FunctionId, Vec<SiteIndex>> = BTreeMap::new();
        for at in 0..self.code.sites.len() {
            let site = SiteIndex::new(at);
            let address = self.code.sites[at].access.address();
            if address.base != Some(Gpr::RSP) && self.steps[at].executions > 0 {
                let function = stacks.places[self.place(site).index()].function;
                loads.entry(function).or_default().push(site);
            }
        }
        // What another function reads may decide the result.
        for function in self.leading_on() {
            loads.remove(&function);
        }
        let times = hotspots(self.profile, &Selection::default(), &[Key::Function]);
        let bursts = traced_bursts(self.profile.recording, self.code).count().max(1) as f64;
        let mut found = Vec::new();
        for row in &times.rows {
            let Some(function) = row.key.function else { continue };
            let Some(sites) = loads.get(&function) else { continue };
            let runs = sites.iter().map(|site| self.steps[site.index()].executions).max();
            let per_burst = runs.unwrap_or(0) as f64 / bursts;
            let named = !stacks.functions[function.index()].name.starts_with('[');
            if named && per_burst >= LOOP && self.repeats(sites) {
                found.push(RepeatedFunction {
                    place: NamedLocation::of(self.profile, row.place),
                    caller: self.caller(function),
                    time: self.profile.cpu_scale().quantity(&row.self_time),
                    loads: sites.len(),
                    per_burst: Metric {
                        evidence: Some(Evidence::Traced),
                        samples: bursts as u64,
                        ..Metric::counted(per_burst, "count")
                    },
                });
            }
        }
        found
    }

    /// The functions that call or jump to others.
    fn leading_on(&self) -> HashSet<FunctionId> {
        let stacks = &self.profile.stacks;
        let function =
            |access: &TracedAccess| stacks.places[self.place(access.site).index()].function;
        // Of code that is inlined, the function that it is part of.
        let compiled = |access: &TracedAccess| {
            let site = &self.code.sites[access.site.index()];
            stacks.compiled_at(site.instruction)
        };
        // Code that was translated, but did not run, decides nothing.
        let ran = |access: &TracedAccess| self.steps[access.site.index()].executions > 0;
        let mut found = HashSet::new();
        for block in self.code.blocks.values() {
            for pair in block.accesses.windows(2) {
                if pair[1].entered && ran(&pair[1]) && compiled(&pair[0]) != compiled(&pair[1]) {
                    found.insert(function(&pair[0]));
                }
            }
            found.extend(
                block.accesses.last().filter(|last| block.leads_on && ran(last)).map(function),
            );
        }
        found
    }

    /// Whether all accesses are loads that repeat themselves, one of them not of a fixed address.
    fn repeats(&self, sites: &[SiteIndex]) -> bool {
        let all = sites.iter().all(|site| {
            let steps = &self.steps[site.index()];
            let same = steps.same as f64 >= SAME * steps.distances as f64;
            let reads = self.code.sites[site.index()].access.kind == Kind::Read;
            reads && steps.distances > 0 && same && !steps.written
        });
        let variable = sites.iter().any(|site| {
            let address = self.code.sites[site.index()].access.address();
            address.base.is_some() || address.segment == Segment::Fs
        });
        all && variable
    }

    /// The frame outside of the function's own that has most of its samples.
    fn caller(&self, function: FunctionId) -> NamedLocation {
        let stacks = &self.profile.stacks;
        let mut callers: BTreeMap<LocationId, Weight> = BTreeMap::new();
        for cell in self.profile.stack_cells() {
            let mut frames = stacks.frames(cell.stack);
            let own = frames.next().map(|place| stacks.places[place.index()].function);
            if own == Some(function)
                && let Some(caller) = frames.next()
            {
                callers.entry(caller).or_default().merge(&cell.weight);
            }
        }
        let top = callers.into_iter().max_by_key(|(_, weight)| weight.amount());
        top.map_or_else(NamedLocation::default, |(place, _)| NamedLocation::of(self.profile, place))
    }
}
