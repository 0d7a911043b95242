//! What-if: the program on a machine with other NUMA nodes, from who touches its pages first and which thread accesses them.
//!
//! What for: the share of accesses that would be to another node, on any machine: as the program is, and with its memory placed
//! otherwise. What not: hardware. Bandwidth of links, caches of other sockets and migration are not in it.
//!
//! The model. Threads that compute, in the order of their birth, stand in equal parts on the nodes with CPUs, and stay. A page is
//! on the node of the thread whose page fault is nearest to it within its object: the last one before the access. Other threads
//! are on the first node. A line counts once per burst, as later accesses hit in caches; a burst stands for its part of its
//! thread's time. Who uses a stretch of an object is what *other* bursts saw there: otherwise each access would be at home on its
//! own node.
//!
//! Intervals are of the bursts that were drawn; the assumptions have none.

mod accessed;
mod cpu_order;
mod first_touch;
mod recorded;
mod tier;
mod topology;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use base::Nanos;
use estimate::interval::{effective_count, wilson};
use facts::{Evidence, Metric};

use crate::objects::{ObjectId, Objects};
use crate::profile::Profile;
use crate::threads::ThreadIndex;
use crate::traced::TracedCode;

use self::accessed::{Accessed, OfBurst, Stretch, Watcher};
pub use self::cpu_order::{CpuOrder, cores, cpu_order};
pub use self::recorded::{ONE_NODE, RecordedNodes, recorded_nodes};
pub(crate) use self::topology::SLOWER;
pub use self::topology::{Topology, TopologyNode};

/// Threads with less of the busiest one's time only start others, or log.
const WORKS: f64 = 0.05;
/// Nanoseconds in which threads that run count as running together, and the part of a thread's time that must be so.
const MOMENT: u64 = 20_000_000;
const TOGETHER: f64 = 0.2;
/// Threads use all of an object alike if they meet others at least this share of the times that chance gives; below it, each
/// has its own part.
const ALIKE: f64 = 0.8;
const APART: f64 = 0.2;

const NO_TIER: &str =
    "that machine has no node with memory alone: --topology 2x18+1 is one that has";

/// Where memory is put.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Policy {
    /// The program's own placement: on the node of the first toucher.
    AsIs,
    /// Each stretch on the node of one of its users.
    FirstTouchByUsers,
    /// Page by page around all nodes with memory.
    Interleave,
    /// All of it on one node; the threads as well if they fit there.
    Bind,
    /// A copy on each node of what nobody writes any more.
    Replicate,
    /// All of it on a node without CPUs (CXL, HBM, persistent memory), threads as they are.
    Tier,
    /// There only the objects that are hardly used, the others where the program has them.
    HotAndCold,
}

impl Policy {
    /// All of them.
    pub const ALL: [Policy; 7] = [
        Policy::AsIs,
        Policy::FirstTouchByUsers,
        Policy::Interleave,
        Policy::Bind,
        Policy::Replicate,
        Policy::Tier,
        Policy::HotAndCold,
    ];

    /// Whether it takes a node without CPUs.
    fn is_on_tier(self) -> bool {
        matches!(self, Policy::Tier | Policy::HotAndCold)
    }

    /// In a word or two.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Policy::AsIs => "as it is",
            Policy::FirstTouchByUsers => "first touch by users",
            Policy::Interleave => "interleave",
            Policy::Bind => "bind",
            Policy::Replicate => "replicate",
            Policy::Tier => "all on a tier",
            Policy::HotAndCold => "cold on a tier",
        }
    }
}

/// What one policy gives.
#[derive(Clone, PartialEq, Debug)]
pub struct Variant {
    /// The policy.
    pub policy: Policy,
    /// Share of all accesses to another node, percent.
    pub remote: Metric,
    /// Of those the ones to a node without CPUs, percent of all accesses.
    pub on_tier: Metric,
    /// Share of all accesses to the node that has most of them, percent.
    pub fullest: Metric,
}

/// How the threads share an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Use {
    /// One thread accesses it.
    One,
    /// Each its own part.
    Parts,
    /// All threads all of it.
    All,
    /// Neither.
    Mixed,
    /// Bursts do not tell: too few saw the same part of it.
    Unknown,
}

impl Use {
    /// In words.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Use::One => "one thread",
            Use::Parts => "own parts",
            Use::All => "every thread",
            Use::Mixed => "several threads",
            Use::Unknown => "not known",
        }
    }
}

/// An object in it.
#[derive(Clone, PartialEq, Debug)]
pub struct PlacedObject {
    /// The object.
    pub object: ObjectId,
    /// Its share of all accesses, percent.
    pub share: Metric,
    /// Threads that were seen to access it.
    pub threads: usize,
    /// How they share it.
    pub use_by: Use,
    /// Nobody was seen to write to it after it had been filled, and threads of several nodes read it.
    pub read_only: bool,
    /// Share of its accesses to another node, percent, in the order of [`Policy::ALL`].
    pub remote: [Metric; 7],
}

/// The program on a topology.
#[derive(Clone, PartialEq, Debug)]
pub struct Placement {
    /// The machine.
    pub topology: Topology,
    /// Threads that compute.
    pub workers: usize,
    /// In the order of [`Policy::ALL`]; those on a tier where the topology has one.
    pub variants: Vec<Variant>,
    /// Most accesses first.
    pub objects: Vec<PlacedObject>,
    /// Share of all accesses whose page has a known first toucher, percent.
    pub known: f64,
    /// The node to bind to, and whether the threads fit on its CPUs.
    pub bound: usize,
    /// See `bound`.
    pub fits: bool,
    /// The objects that [`Policy::HotAndCold`] puts on the tier, the largest first.
    pub cold: Vec<ObjectId>,
}

/// Lays the recorded program out on a topology.
///
/// # Errors
/// Why that cannot be had.
pub fn placement(
    profile: &Profile<'_>,
    code: &TracedCode,
    objects: &Objects,
    topology: Topology,
) -> Result<Placement, String> {
    if profile.recording.faults.is_empty() {
        return Err("which thread touched a page first is not known: no page faults with their addresses were recorded (`fathom doctor` says why)".to_owned());
    }
    let watcher = Watcher::new(profile, code, objects);
    if watcher.found.is_empty() {
        return Err("no burst recorded memory accesses of a thread".to_owned());
    }
    let workers = workers(profile);
    if workers.is_empty() {
        return Err("which threads compute is not known: there are no clock samples".to_owned());
    }
    let model = Model::new(&watcher, &workers, &topology);
    let all: Vec<&Accessed> = watcher.found.iter().collect();
    let has_tier = topology.tier().is_some();
    let possible = Policy::ALL.into_iter().filter(|policy| has_tier || !policy.is_on_tier());
    let variants = possible.map(|policy| model.variant(policy, &all)).collect();
    let lines = |of: &dyn Fn(&&Accessed) -> bool| {
        watcher.found.iter().filter(of).map(|one| one.lines).sum::<f64>()
    };
    let known = lines(&|one| one.toucher.is_some()) / lines(&|_| true) * 100.0;
    let (objects, bound, fits) = (model.objects(), model.bound, model.fits);
    let (workers, cold) = (workers.len(), model.cold);
    Ok(Placement { workers, variants, objects, known, bound, fits, cold, topology })
}

/// The threads that compute, in the order of their birth. Not those that do it while no other thread does, as one that fills
/// the memory and then waits for the others.
fn workers(profile: &Profile<'_>) -> Vec<ThreadIndex> {
    let mut moments: BTreeMap<u64, Vec<(ThreadIndex, f64)>> = BTreeMap::new();
    for sample in &profile.recording.samples {
        if let Some(thread) = profile.threads.find(sample.pid, sample.tid) {
            let weight = sample.weight.0 as f64;
            moments.entry(sample.time.0 / MOMENT).or_default().push((thread, weight));
        }
    }
    let threads = profile.threads.all();
    let (mut times, mut together) = (vec![0.0; threads.len()], vec![0.0; threads.len()]);
    for samples in moments.values() {
        let several = samples.iter().any(|(thread, _)| *thread != samples[0].0);
        for (thread, weight) in samples {
            times[thread.index()] += weight;
            together[thread.index()] += if several { *weight } else { 0.0 };
        }
    }
    let chosen = |times: &[f64], also: &dyn Fn(usize) -> bool| {
        let busiest = times.iter().copied().fold(0.0, f64::max);
        let works = |at: &usize| times[*at] > 0.0 && times[*at] >= WORKS * busiest && also(*at);
        (0..threads.len()).filter(works).collect::<Vec<usize>>()
    };
    let mut found = chosen(&together, &|at| together[at] >= TOGETHER * times[at]);
    if found.is_empty() {
        found = chosen(&times, &|_| true);
    }
    found.sort_by_key(|at| (threads[*at].start, threads[*at].tid));
    found.into_iter().map(ThreadIndex::new).collect()
}

/// The first sum as a share of the second, percent, with the interval of as many equally weighted bursts.
pub(crate) fn share(bursts: &[(f64, f64)], evidence: Evidence) -> Option<Metric> {
    let sum = |part: fn(&(f64, f64)) -> f64| bursts.iter().map(part).sum::<f64>();
    let (part, all) = (sum(|one| one.0), sum(|one| one.1));
    if all <= 0.0 {
        return None;
    }
    let count = effective_count(all, sum(|one| one.1 * one.1));
    let (low, high) = wilson(part / all, count);
    let value = part / all * 100.0;
    let interval = (low * 100.0, high * 100.0);
    Some(Metric::with_interval(evidence, value, "percent", interval, bursts.len() as u64))
}

/// The users of a stretch: lines by node.
#[derive(Default)]
struct Users {
    nodes: Vec<f64>,
    bursts: Vec<usize>,
}

struct Model<'a> {
    watcher: &'a Watcher<'a>,
    topology: &'a Topology,
    /// By thread; others are on the first node with CPUs.
    nodes: HashMap<ThreadIndex, usize>,
    elsewhere: usize,
    users: BTreeMap<Stretch, Users>,
    /// Per object: when the last store to it was seen, if threads of several nodes read it later.
    read_only: BTreeMap<ObjectId, Nanos>,
    /// The node to bind to, and whether the threads fit there.
    bound: usize,
    fits: bool,
    /// What is hardly used.
    cold: Vec<ObjectId>,
}

/// Where an access would go: by chance of being remote, and the shares of the nodes with memory. `None` if unknown.
type Destination = Option<(f64, Vec<f64>)>;

impl<'a> Model<'a> {
    fn new(watcher: &'a Watcher<'a>, workers: &[ThreadIndex], topology: &'a Topology) -> Model<'a> {
        let laid = topology.lay(workers.len());
        let nodes: HashMap<ThreadIndex, usize> = workers.iter().copied().zip(laid).collect();
        let elsewhere = topology.nodes.iter().position(|node| node.cpus > 0).unwrap_or(0);
        let mut model = Model {
            watcher,
            topology,
            nodes,
            elsewhere,
            users: BTreeMap::new(),
            read_only: BTreeMap::new(),
            bound: elsewhere,
            fits: false,
            cold: tier::cold(watcher),
        };
        let mut by_node = vec![0.0; topology.nodes.len()];
        let mut readers: BTreeMap<ObjectId, Vec<usize>> = BTreeMap::new();
        for one in &watcher.found {
            let OfBurst { thread, time, .. } = watcher.bursts[one.burst];
            let node = model.node(thread);
            by_node[node] += one.lines;
            let users = model.users.entry(one.stretch).or_default();
            users.nodes.resize(topology.nodes.len(), 0.0);
            users.nodes[node] += one.lines;
            if users.bursts.last() != Some(&one.burst) {
                users.bursts.push(one.burst);
            }
            let object = one.stretch.1;
            let stored = watcher.stores.get(&object).copied().unwrap_or(Nanos(0));
            let named = watcher.objects.get(object).kind.is_named();
            if named && (time > stored || !watcher.stores.contains_key(&object)) {
                readers.entry(object).or_default().push(node);
            }
        }
        let several = |nodes: &Vec<usize>| nodes.iter().any(|node| *node != nodes[0]);
        for (object, _) in readers.into_iter().filter(|(_, nodes)| several(nodes)) {
            let stored = watcher.stores.get(&object).copied();
            model.read_only.insert(object, stored.unwrap_or(Nanos(0)));
        }
        let with_memory = (0..by_node.len()).filter(|at| topology.nodes[*at].memory);
        // Of equals the first.
        let best = with_memory.rev().max_by(|a, b| by_node[*a].total_cmp(&by_node[*b]));
        model.bound = best.unwrap_or(elsewhere);
        model.fits = workers.len() <= topology.nodes[model.bound].cpus;
        model
    }

    fn node(&self, thread: ThreadIndex) -> usize {
        self.nodes.get(&thread).copied().unwrap_or(self.elsewhere)
    }

    /// All on one node.
    fn at(&self, node: usize, own: usize) -> Destination {
        let mut shares = vec![0.0; self.topology.nodes.len()];
        shares[node] = 1.0;
        Some((f64::from(node != own), shares))
    }

    fn went(&self, one: &Accessed, policy: Policy) -> Destination {
        self.went_if(one, policy, one.toucher.map(|toucher| toucher.thread))
    }

    /// The chance of being remote if it was the other thread that may have touched the page first.
    fn remote_or(&self, one: &Accessed, policy: Policy) -> Option<f64> {
        let or = one.toucher?.or?;
        Some(self.went_if(one, policy, Some(or))?.0)
    }

    fn went_if(&self, one: &Accessed, policy: Policy, toucher: Option<ThreadIndex>) -> Destination {
        let OfBurst { thread, time, .. } = self.watcher.bursts[one.burst];
        let own = self.node(thread);
        match policy {
            Policy::AsIs => self.at(self.topology.first_touch(self.node(toucher?)), own),
            Policy::FirstTouchByUsers => self.by_users(one, own),
            Policy::Interleave => {
                let nodes = &self.topology.nodes;
                let part = 1.0 / self.topology.memory_nodes().max(1) as f64;
                let shares = nodes.iter().map(|node| if node.memory { part } else { 0.0 });
                let remote = if nodes[own].memory { 1.0 - part } else { 1.0 };
                Some((remote, shares.collect()))
            }
            Policy::Bind if self.fits => self.at(self.bound, self.bound),
            Policy::Bind => self.at(self.bound, own),
            Policy::Replicate => match self.read_only.get(&one.stretch.1) {
                Some(stored) if time > *stored || *stored == Nanos(0) => {
                    self.at(self.topology.first_touch(own), own)
                }
                _ => self.went_if(one, Policy::AsIs, toucher),
            },
            Policy::Tier => self.at(self.topology.tier()?, own),
            Policy::HotAndCold if self.cold.contains(&one.stretch.1) => {
                self.went_if(one, Policy::Tier, toucher)
            }
            Policy::HotAndCold => self.went_if(one, Policy::AsIs, toucher),
        }
    }

    /// On the node of whoever else uses the stretch: each of the others may be the first, by how much it uses of it. The node
    /// with most of them instead would be the other one wherever two use it alike.
    fn by_users(&self, one: &Accessed, own: usize) -> Destination {
        let users = self.users.get(&one.stretch)?;
        let all: f64 = users.nodes.iter().sum();
        let mine = self.lines_of(one);
        let rest = all - mine;
        if users.bursts.len() < 2 || rest <= all * 1e-9 {
            return None;
        }
        let mut shares = vec![0.0; users.nodes.len()];
        let mut remote = 0.0;
        for (node, lines) in users.nodes.iter().enumerate() {
            let others = (lines - if node == own { mine } else { 0.0 }).max(0.0) / rest;
            let there = self.topology.first_touch(node);
            shares[there] += others;
            remote += if there == own { 0.0 } else { others };
        }
        Some((remote, shares))
    }

    /// All lines of its burst in its stretch, whoever touched the pages first.
    fn lines_of(&self, one: &Accessed) -> f64 {
        let found = &self.watcher.found;
        let start =
            found.partition_point(|other| (other.burst, other.stretch) < (one.burst, one.stretch));
        let same = |other: &&Accessed| (other.burst, other.stretch) == (one.burst, one.stretch);
        found[start..].iter().take_while(same).map(|other| other.lines).sum()
    }

    fn variant(&self, policy: Policy, accessed: &[&Accessed]) -> Variant {
        let mut bursts: BTreeMap<usize, (f64, f64)> = BTreeMap::new();
        // Lines that may be local, or remote, by whoever else may have touched their pages first.
        let (mut less, mut more) = (0.0, 0.0);
        let mut by_node = vec![0.0; self.topology.nodes.len()];
        for one in accessed {
            let Some((remote, shares)) = self.went(one, policy) else { continue };
            let of_burst = bursts.entry(one.burst).or_default();
            of_burst.0 += remote * one.lines;
            of_burst.1 += one.lines;
            let or = self.remote_or(one, policy).map_or(0.0, |or| (or - remote) * one.lines);
            (less, more) = (less + (-or).max(0.0), more + or.max(0.0));
            for (sum, share) in by_node.iter_mut().zip(shares) {
                *sum += share * one.lines;
            }
        }
        let bursts: Vec<(f64, f64)> = bursts.into_values().collect();
        let unknown = || Metric::unavailable("percent", self.why_unknown(policy));
        let nothing = match policy {
            Policy::Replicate => self.read_only.is_empty(),
            Policy::HotAndCold => self.cold.is_empty(),
            _ => false,
        };
        if bursts.is_empty() || nothing {
            return Variant { policy, remote: unknown(), on_tier: unknown(), fullest: unknown() };
        }
        let known: f64 = bursts.iter().map(|one| one.1).sum();
        let part = |lines: f64| -> Vec<(f64, f64)> {
            bursts.iter().map(|one| (lines / known * one.1, one.1)).collect()
        };
        let fullest = part(by_node.iter().copied().fold(0.0, f64::max));
        let without_cpus =
            by_node.iter().zip(&self.topology.nodes).filter(|(_, node)| node.cpus == 0);
        let on_tier: f64 = without_cpus.map(|(lines, _)| lines).sum();
        let by_arithmetic = matches!(policy, Policy::Interleave | Policy::Tier)
            || (policy == Policy::Bind && self.fits);
        let figure = |bursts: &[(f64, f64)], by_arithmetic: bool| {
            let metric = share(bursts, Evidence::Modelled).unwrap_or_else(unknown);
            match metric.value {
                // Every access has the same chance: which bursts were drawn does not matter.
                Some(value) if by_arithmetic => {
                    Metric { low: Some(value), high: Some(value), ..metric }
                }
                _ => metric,
            }
        };
        let unsure = |metric: Metric, less: f64, more: f64| Metric {
            low: metric.low.map(|low| (low - 100.0 * less / known).max(0.0)),
            high: metric.high.map(|high| (high + 100.0 * more / known).min(100.0)),
            ..metric
        };
        Variant {
            policy,
            remote: unsure(figure(&bursts, by_arithmetic), less, more),
            on_tier: match self.topology.tier() {
                // What is not put there does not go there, whatever was drawn.
                Some(_) if on_tier == 0.0 && !policy.is_on_tier() => figure(&part(0.0), true),
                Some(_) => figure(&part(on_tier), by_arithmetic),
                None => Metric::unavailable("percent", NO_TIER),
            },
            fullest: unsure(figure(&fullest, by_arithmetic), less + more, less + more),
        }
    }

    fn why_unknown(&self, policy: Policy) -> &'static str {
        match policy {
            Policy::FirstTouchByUsers => "no two bursts saw the same part of it: record for longer",
            Policy::Replicate => "threads of several nodes share nothing that they only read",
            Policy::Tier | Policy::HotAndCold if self.topology.tier().is_none() => NO_TIER,
            Policy::HotAndCold => "no object of 1 MiB or more is hardly used",
            _ => "which thread touched its pages first is not known",
        }
    }

    fn objects(&self) -> Vec<PlacedObject> {
        let mut by_object: BTreeMap<ObjectId, Vec<&Accessed>> = BTreeMap::new();
        let mut bursts = vec![(0.0, 0.0); self.watcher.bursts.len()];
        for one in &self.watcher.found {
            by_object.entry(one.stretch.1).or_default().push(one);
            bursts[one.burst].1 += one.lines;
        }
        let lines = |of: &[&Accessed]| of.iter().map(|one| one.lines).sum::<f64>();
        let mut found: Vec<(ObjectId, Vec<&Accessed>)> = by_object.into_iter().collect();
        found.sort_by(|a, b| lines(&b.1).total_cmp(&lines(&a.1)));
        let placed = |(object, accessed): (ObjectId, Vec<&Accessed>)| {
            let mut of = bursts.clone();
            accessed.iter().for_each(|one| of[one.burst].0 += one.lines);
            let share = share(&of, Evidence::Traced)
                .unwrap_or_else(|| Metric::unavailable("percent", "no burst accessed memory"));
            let threads: BTreeSet<ThreadIndex> =
                accessed.iter().map(|one| self.watcher.bursts[one.burst].thread).collect();
            let read_only = self.read_only.contains_key(&object);
            let remote = Policy::ALL.map(|policy| match policy {
                Policy::Replicate if !read_only => {
                    Metric::unavailable("percent", self.why_unknown(policy))
                }
                _ => self.variant(policy, &accessed).remote,
            });
            let use_by = self.use_by(&accessed);
            let threads = threads.len();
            PlacedObject { object, share, threads, use_by, read_only, remote }
        };
        found.into_iter().map(placed).collect()
    }

    /// Whether an access meets other threads' in its stretch, as other bursts saw it, as often as anywhere in the object. Of the
    /// threads that compute: the one that filled it has no part of its own.
    fn use_by(&self, accessed: &[&Accessed]) -> Use {
        let computes =
            |one: &&&Accessed| self.nodes.contains_key(&self.watcher.bursts[one.burst].thread);
        // Lines by thread, and by thread and burst: of each stretch, and of the whole object.
        let mut near: BTreeMap<Stretch, Threads> = BTreeMap::new();
        let mut far = Threads::default();
        for one in accessed.iter().filter(computes) {
            let thread = self.watcher.bursts[one.burst].thread;
            near.entry(one.stretch).or_default().add(thread, one);
            far.add(thread, one);
        }
        if far.lines.len() < 2 {
            return Use::One;
        }
        let (mut others, mut by_chance) = (0.0, 0.0);
        for one in accessed.iter().filter(computes) {
            let thread = self.watcher.bursts[one.burst].thread;
            let here = near.get(&one.stretch).and_then(|threads| threads.others(thread, one.burst));
            let anywhere = far.others(thread, one.burst);
            if let (Some(here), Some(anywhere)) = (here, anywhere) {
                others += one.lines * here;
                by_chance += one.lines * anywhere;
            }
        }
        match others / by_chance {
            part if part.is_nan() => Use::Unknown,
            part if part >= ALIKE => Use::All,
            part if part <= APART => Use::Parts,
            _ => Use::Mixed,
        }
    }
}

/// Lines by thread, and by burst.
#[derive(Default)]
struct Threads {
    lines: BTreeMap<ThreadIndex, f64>,
    bursts: BTreeMap<usize, f64>,
}

impl Threads {
    fn add(&mut self, thread: ThreadIndex, one: &Accessed) {
        *self.lines.entry(thread).or_default() += one.lines;
        *self.bursts.entry(one.burst).or_default() += one.lines;
    }

    /// Share of the lines of other bursts that belong to other threads, 0 to 1; `None` if there are no other bursts.
    fn others(&self, thread: ThreadIndex, burst: usize) -> Option<f64> {
        let all: f64 = self.lines.values().sum();
        let mine = self.bursts.get(&burst).copied().unwrap_or(0.0);
        let own = self.lines.get(&thread).copied().unwrap_or(0.0) - mine;
        let rest = all - mine;
        (rest > all * 1e-9 && self.bursts.len() > 1).then(|| ((rest - own) / rest).clamp(0.0, 1.0))
    }
}
