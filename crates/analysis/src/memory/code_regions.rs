//! To which code the work of bursts and the time of samples belong.
//!
//! What for: the work of a burst is attributed to the code that did it, not to where the burst began, and compared with the CPU
//! time of the same code. Where a loop's native pace is known (`pace`), bursts only need to show what an iteration does; their
//! own duration does not matter. What not: amounts.
//!
//! A region is a loop with a pace, with the loops around it none of whose iterations leaves a record; or a loop without a pace in
//! which the program stays from one sample to the next, so that a burst is mostly inside or outside it; or a function with its
//! remaining code. A function that runs (nearly) only below such a loop belongs to it. One that several such loops call, and that
//! neither loops nor calls, belongs to the one that called it: of samples the stack tells which, of bursts the loop that ran before.
//! Code of functions in which no sample fell, as stubs of the linker that the core passes in no time, belongs to what ran before.

use std::collections::{BTreeMap, HashMap, HashSet};

use base::{BlockId, BurstId, CodeAddress, ModuleId};
use facts::{ModuleKind, StackNode};

use crate::pace::Undisturbed;
use crate::profile::Profile;
use crate::stack::{FunctionId, NodeIndex};
use crate::traced::{Site, SiteIndex, TracedCode};

/// A function belongs to a loop if this share of its time is below that loop.
const BELOW: f64 = 0.95;

/// A region of the program's code: a stratum of the estimates.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum CodeRegion {
    /// As compiled, with all that is inlined into it, but without the loops that are regions of their own.
    Function(FunctionId),
    /// A loop, by its number.
    Loop(u32),
}

/// A loop whose pace is known, and whose iterations in bursts are known.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct PacedLoop {
    /// Seconds of the program's own time in this loop, outside of inner ones that are regions, per iteration.
    pub(crate) seconds: f64,
    /// Half of the 95 % interval of its iterations in the whole run, as a part of them.
    pub(crate) relative: f64,
}

/// Whose code a site is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Belonging {
    /// Its region's own.
    Own,
    /// That of the loop which called its region ([`CodeRegions::is_shared`]).
    Caller,
    /// That of what ran before ([`CodeRegions::is_passed`]).
    Before,
}

/// The region of a site. Every access of a replay asks for both.
#[derive(Clone, Copy, Debug)]
struct SiteRegion {
    place: CodeRegion,
    belonging: Belonging,
}

/// The regions of sites and stacks.
#[derive(Debug, Default)]
pub(crate) struct CodeRegions {
    of_site: Vec<SiteRegion>,
    /// Of blocks whose executions were counted.
    of_counted: HashMap<BlockId, CodeRegion>,
    of_node: Vec<CodeRegion>,
    /// Functions that several loops call, each for itself.
    shared: HashSet<CodeRegion>,
    /// Functions in whose own code no sample fell.
    passed: HashSet<CodeRegion>,
    loops: BTreeMap<CodeRegion, PacedLoop>,
    /// Of bursts.
    iterations: HashMap<(BurstId, CodeRegion), f64>,
    /// Share of a region's time that is outside the kernel, 0 to 1.
    own: HashMap<CodeRegion, f64>,
    /// Samples' weight in each region, nanoseconds; and half of what one sample represents.
    weight: HashMap<CodeRegion, f64>,
    least: f64,
    /// The native part of the CPU time.
    pub(crate) undisturbed: Undisturbed,
}

impl CodeRegions {
    /// Sorts the sites of bursts and the stacks of samples.
    pub(crate) fn new(profile: &Profile<'_>, code: &TracedCode) -> CodeRegions {
        let loops = profile.loops();
        let paced = |at: usize| loops.loops[at].odometer.is_some();
        let around = |at: CodeAddress| {
            let paced = loops.around(at, paced);
            let found = paced.or_else(|| loops.around(at, |at| loops.loops[at].stays))?;
            Some(loops.loops[found].known_by.unwrap_or(found))
        };
        let nodes = Nodes::read(profile, around);
        let times = nodes.times(profile);
        let below = below(&times);
        let place = |own: Option<usize>, function: FunctionId| {
            let loop_ = own.or_else(|| below.get(&function).copied());
            loop_.map_or(CodeRegion::Function(function), |at| CodeRegion::Loop(at as u32))
        };
        let firsts = first_of_block(code);
        let sampled = profile.stack_cells().iter();
        let sampled: HashSet<FunctionId> =
            sampled.map(|cell| profile.stacks.compiled_user(cell.stack)).collect();
        let of_site = code.sites.iter().zip(firsts).map(|(site, first)| {
            // A block may lead on into a function that the first one calls.
            let function = |site: &Site| profile.stacks.compiled_at(site.instruction);
            let own = Some(function(site)).filter(|own| sampled.contains(own));
            place(around(site.instruction), own.unwrap_or_else(|| function(first)))
        });
        let of_site =
            of_site.map(|place| SiteRegion { place, belonging: Belonging::Own }).collect();
        let of_counted = code.counted.iter().filter_map(|(block, counted)| {
            let start = counted.start?;
            Some((*block, place(around(start), profile.stacks.compiled_at(start))))
        });
        let of_counted = of_counted.collect();
        let shared = shared(profile, &times, |at| loops.is_loopless(at));
        let of_node = profile.stacks.of_each_node(|node| {
            let function = profile.stacks.compiled_user(node);
            let caller = node.filter(|_| shared.contains(&function));
            let own = node.and_then(|node| nodes.own[node.index()]);
            place(own.or_else(|| nodes.around[caller?.index()]), function)
        });
        let shared = shared.into_iter().map(CodeRegion::Function).collect();
        let undisturbed = loops.undisturbed;
        let mut places = CodeRegions {
            of_site,
            of_counted,
            of_node,
            shared,
            undisturbed,
            ..CodeRegions::default()
        };
        let mut times: HashMap<CodeRegion, (f64, f64)> = HashMap::new();
        for cell in profile.stack_cells() {
            let time = times.entry(places.of_stack(profile, cell.stack)).or_default();
            let amount = cell.weight.amount() as f64;
            time.0 += if cell.kernel { 0.0 } else { amount };
            time.1 += amount;
        }
        // Without samples every function is one that they might have.
        let functions = places.of_site.iter().map(|site| &site.place);
        let functions = functions.filter(|_| !times.is_empty());
        let functions = functions.filter(|place| matches!(place, CodeRegion::Function(_)));
        places.passed = functions.filter(|place| !times.contains_key(place)).copied().collect();
        for site in &mut places.of_site {
            site.belonging = match site.place {
                place if places.passed.contains(&place) => Belonging::Before,
                place if places.shared.contains(&place) => Belonging::Caller,
                _ => Belonging::Own,
            };
        }
        let in_bursts = loops.in_bursts().iter();
        places.iterations = in_bursts
            .map(|((burst, at), count)| ((*burst, CodeRegion::Loop(*at as u32)), *count))
            .collect();
        for (at, one) in loops.loops.iter().enumerate() {
            let place = CodeRegion::Loop(at as u32);
            let Some(odometer) = &one.odometer else { continue };
            // In the time that its stratum has, it went round as often as samples say.
            let own = times.get(&place).map_or(0.0, |(own, _)| *own) * profile.seconds_per_weight();
            let seconds = own * undisturbed.share() / odometer.iterations;
            let paced = PacedLoop { seconds, relative: odometer.relative };
            places.loops.insert(place, paced);
        }
        let records: u64 = profile.stack_cells().iter().map(|cell| cell.weight.records()).sum();
        let all: f64 = times.values().map(|(_, all)| all).sum();
        // A region with a burst but no sample had less time than a sample shows: half of that.
        places.least = all / records.max(1) as f64 / 2.0;
        places.weight = times.iter().map(|(place, (_, all))| (*place, *all)).collect();
        let share = |(own, all): (f64, f64)| if own > 0.0 { own / all } else { 1.0 };
        places.own = times.into_iter().map(|(place, time)| (place, share(time))).collect();
        places
    }

    /// Of an access.
    pub(crate) fn of_site(&self, site: SiteIndex) -> Option<CodeRegion> {
        Some(self.of_site.get(site.index())?.place)
    }

    /// The same, and whose code it is.
    pub(super) fn belonging(&self, site: SiteIndex) -> Option<(CodeRegion, Belonging)> {
        let SiteRegion { place, belonging } = *self.of_site.get(site.index())?;
        Some((place, belonging))
    }

    /// Whether there is any function that belongs to what calls it.
    pub(super) fn has_shared(&self) -> bool {
        !self.shared.is_empty() || !self.passed.is_empty()
    }

    /// Whether this is a function that belongs to the loop that called it.
    pub(super) fn is_shared(&self, place: CodeRegion) -> bool {
        self.shared.contains(&place)
    }

    /// Whether this is code that belongs to what ran before.
    pub(super) fn is_passed(&self, place: CodeRegion) -> bool {
        self.passed.contains(&place)
    }

    /// The region of a block whose executions were counted.
    pub(super) fn of_counted(&self, block: BlockId) -> Option<CodeRegion> {
        self.of_counted.get(&block).copied()
    }

    /// Of a sample, in the kernel or not.
    pub(crate) fn of_stack(&self, profile: &Profile<'_>, stack: Option<NodeIndex>) -> CodeRegion {
        let known = stack.and_then(|node| self.of_node.get(node.index()).copied());
        known.unwrap_or_else(|| CodeRegion::Function(profile.stacks.compiled_user(stack)))
    }

    /// Iterations of a loop in a burst.
    pub(crate) fn iterations(&self, burst: BurstId, place: CodeRegion) -> f64 {
        self.iterations.get(&(burst, place)).copied().unwrap_or(0.0)
    }

    /// The pace of a region, if it is such a loop.
    pub(crate) fn paced(&self, place: CodeRegion) -> Option<&PacedLoop> {
        self.loops.get(&place)
    }

    /// Samples' weight in a place, in the kernel too; where none fell, as if half a one had. `None` without samples.
    pub(crate) fn share(&self, place: CodeRegion) -> Option<f64> {
        let known = (!self.weight.is_empty()).then_some(self.least)?;
        Some(self.sampled(place).unwrap_or(0.0).max(known))
    }

    /// The same where samples fell.
    pub(crate) fn sampled(&self, place: CodeRegion) -> Option<f64> {
        self.weight.get(&place).copied().filter(|weight| *weight > 0.0)
    }

    /// The same of all places.
    pub(crate) fn all_sampled(&self) -> f64 {
        self.weight.values().sum()
    }

    /// Share of a region's time outside the kernel, 0 to 1; never 0, because bursts begin in the program's own code.
    pub(crate) fn own_share(&self, place: CodeRegion) -> f64 {
        self.own.get(&place).copied().unwrap_or(1.0)
    }
}

/// By site, the first block that has it: where nothing names functions, and in those without samples, all of a block is in one.
fn first_of_block(code: &TracedCode) -> Vec<&Site> {
    let mut firsts: Vec<&Site> = code.sites.iter().collect();
    let mut known = vec![false; firsts.len()];
    let mut blocks: Vec<_> = code.blocks.iter().collect();
    blocks.sort_by_key(|(id, _)| **id);
    for (_, block) in blocks {
        let Some(first) = block.accesses.first() else { continue };
        for access in &block.accesses {
            if !std::mem::replace(&mut known[access.site.index()], true) {
                firsts[access.site.index()] = &code.sites[first.site.index()];
            }
        }
    }
    firsts
}

/// The modules of the kernel.
fn kernel(profile: &Profile<'_>) -> Vec<ModuleId> {
    let modules = profile.recording.modules.iter();
    modules.filter(|module| module.kind == ModuleKind::Kernel).map(|module| module.id).collect()
}

/// Time of functions, by the loop in which they run.
type Times = HashMap<FunctionId, HashMap<Option<usize>, f64>>;

/// Nodes of stacks, by their index.
struct Nodes {
    /// The loop in whose code the node is; of the kernel's, that in which the program called it.
    own: Vec<Option<usize>>,
    /// The innermost one of the node and all of its callers.
    around: Vec<Option<usize>>,
}

impl Nodes {
    fn read(profile: &Profile<'_>, around: impl Fn(CodeAddress) -> Option<usize>) -> Nodes {
        let stacks = &profile.stacks;
        let kernel = kernel(profile);
        let none = || stacks.of_each_node(|_| None);
        let mut nodes = Nodes { own: none(), around: none() };
        for node in &profile.recording.stack_nodes {
            let Some(at) = stacks.find(node.id) else { continue };
            let parent = stacks.parent(at).map(NodeIndex::index);
            let own = match parent {
                Some(parent) if kernel.contains(&node.module) => nodes.own[parent],
                _ => around(node.code_address()),
            };
            nodes.own[at.index()] = own;
            nodes.around[at.index()] = own.or_else(|| nodes.around[parent?]);
        }
        nodes
    }

    /// Time of functions outside of loops of their own, by the loop around them.
    fn times(&self, profile: &Profile<'_>) -> Times {
        let mut times = Times::new();
        for cell in profile.stack_cells() {
            let Some(node) = cell.stack.filter(|node| self.own[node.index()].is_none()) else {
                continue;
            };
            let of = times.entry(profile.stacks.compiled_user(cell.stack)).or_default();
            *of.entry(self.around[node.index()]).or_default() += cell.weight.amount() as f64;
        }
        times
    }
}

/// Functions that several loops call, none of them nearly always, and that are over soon.
fn shared(
    profile: &Profile<'_>,
    times: &Times,
    is_loopless: impl Fn(CodeAddress) -> bool,
) -> HashSet<FunctionId> {
    let (stacks, kernel) = (&profile.stacks, kernel(profile));
    let mut longer: HashSet<FunctionId> = HashSet::new();
    let own = |node: &&StackNode| !kernel.contains(&node.module);
    for node in profile.recording.stack_nodes.iter().filter(own) {
        let Some(at) = stacks.find(node.id) else { continue };
        if !is_loopless(node.code_address()) {
            longer.insert(stacks.compiled_user(Some(at)));
        }
        // It calls, perhaps itself.
        longer.extend(stacks.parent(at).map(|caller| stacks.compiled_user(Some(caller))));
    }
    let is_shared = |times: &HashMap<Option<usize>, f64>| {
        let below = times.iter().filter(|(around, _)| around.is_some());
        let (most, sum) =
            below.fold((0.0f64, 0.0), |(most, sum), (_, time)| (most.max(*time), sum + time));
        let all: f64 = times.values().sum();
        sum >= BELOW * all && most < BELOW * all
    };
    let functions = times.iter().filter(|(_, times)| is_shared(times));
    functions.map(|(function, _)| *function).filter(|one| !longer.contains(one)).collect()
}

/// Functions that run below one loop.
fn below(times: &Times) -> HashMap<FunctionId, usize> {
    let mostly = |(function, times): (&FunctionId, &HashMap<Option<usize>, f64>)| {
        let all: f64 = times.values().sum();
        let most = times.iter().max_by(|a, b| a.1.total_cmp(b.1).then(a.0.cmp(b.0)))?;
        let around = most.0.filter(|_| *most.1 >= BELOW * all)?;
        Some((*function, around))
    };
    times.iter().filter_map(mostly).collect()
}
