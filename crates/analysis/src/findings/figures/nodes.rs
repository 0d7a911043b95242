//! On which NUMA node the memory of functions is, and on which node their threads run.
//!
//! What for: joins three things: the lines that bursts touched, pages whose node the collector asked for, and the CPU of
//! samples. What not: conditions, and how much longer a remote line takes.
//!
//! Assumptions: a sampled page represents its stretch of memory. During a burst a thread is on the node of its sample nearest in
//! time. A line counts once per burst, however often it was touched, because later accesses hit in caches. A burst belongs to
//! the function in which it began.

use std::collections::{BTreeMap, HashMap};

use base::{IndexMap, Nanos, Pid, RemoteAddr, ThreadId};
use facts::host::NumaNode;
use facts::{Burst, Evidence, Metric, Page};

use super::{HotFunction, NamedLocation};
use crate::figure::Figure;
use crate::findings::NotJudged;
use crate::objects::{Objects, Window};
use crate::placement::share;
use crate::profile::Profile;
use crate::stack::FunctionId;
use crate::traced::{Execution, Tool, Touch, TracedBlock, TracedCode, in_order};

const LINE: u64 = x86::LINE_BYTES as u64;
/// What a mask of 64 lines covers.
const PAGE: u64 = 64 * LINE;
/// Pages and steps of a run that are gone through.
const LONGEST: u64 = 1 << 16;
/// A sample further away says nothing of where the thread was during a burst.
const NEAR: Nanos = Nanos(250_000_000);

/// A function's memory and its threads.
#[derive(Clone, PartialEq, Debug)]
pub struct RemoteFigure {
    /// The function, and the object that has most of its remote lines.
    pub place: NamedLocation,
    /// CPU time in it, seconds.
    pub time: Metric,
    /// Share of that time beyond the no-miss time, percent.
    pub waits: Figure,
    /// Share of the lines it touches that are on another node than the thread, percent.
    pub remote: Figure,
    /// Share of the lines on the node that has most of them, percent.
    pub fullest: f64,
    /// That node.
    pub fullest_node: u32,
    /// Nodes with memory.
    pub nodes: f64,
}

/// For each function whose bursts touched known pages. Empty on a machine with one node.
pub(super) fn remote(
    profile: &Profile<'_>,
    code: &TracedCode,
    objects: &Objects,
    functions: &[HotFunction],
) -> Result<Vec<RemoteFigure>, NotJudged> {
    let nodes = &profile.recording.run.host.numa_nodes;
    let with_memory = profile.recording.run.host.memory_nodes().count();
    if with_memory < 2 {
        return Ok(Vec::new());
    }
    let snapshots = PageSnapshots::new(&profile.recording.pages);
    if snapshots.is_empty() {
        return Err("on which NUMA nodes the program's pages lie was not recorded".into());
    }
    let mut watcher = Watcher {
        profile,
        code,
        objects,
        threads: nodes_of_threads(profile, nodes),
        snapshots,
        function: None,
        pages: TouchedPages::default(),
        found: BTreeMap::new(),
    };
    in_order(profile.recording, code, &mut watcher);
    let figure = |function: &HotFunction| {
        let seen = watcher.found.get(&function.place.id?)?;
        seen.figure(function, objects, with_memory as f64)
    };
    let figures: Vec<RemoteFigure> = functions.iter().filter_map(figure).collect();
    match figures.is_empty() && !functions.is_empty() {
        true => {
            Err("the NUMA nodes of the pages that bursts touched are unknown: record for longer"
                .into())
        }
        false => Ok(figures),
    }
}

/// The node of each sample of a thread, in the order of time.
pub(crate) struct ThreadNodes(HashMap<ThreadId, Vec<(Nanos, u32)>>);

impl ThreadNodes {
    /// On which node a burst's thread was: that of its nearest sample.
    pub(crate) fn near(&self, burst: &Burst) -> Option<u32> {
        let samples = self.0.get(&ThreadId::new(burst.pid, burst.tid))?;
        let behind = samples.partition_point(|(time, _)| *time < burst.time);
        let around = samples[behind.saturating_sub(1)..].iter().take(2);
        let distance = |time: Nanos| time.0.abs_diff(burst.time.0);
        let (time, node) = around.min_by_key(|(time, _)| distance(*time))?;
        (distance(*time) <= NEAR.0).then_some(*node)
    }
}

pub(crate) fn nodes_of_threads(profile: &Profile<'_>, nodes: &[NumaNode]) -> ThreadNodes {
    let mut threads: HashMap<ThreadId, Vec<(Nanos, u32)>> = HashMap::new();
    for sample in &profile.recording.samples {
        let Some(cpu) = sample.cpu else { continue };
        if let Some(node) = nodes.iter().find(|node| node.cpus.contains(&cpu.0)) {
            threads
                .entry(ThreadId::new(sample.pid, sample.tid))
                .or_default()
                .push((sample.time, node.id));
        }
    }
    threads.values_mut().for_each(|samples| samples.sort_unstable());
    ThreadNodes(threads)
}

/// By address: the bytes that a page represents, and its node.
type PageNodes = BTreeMap<u64, (u64, u32)>;

/// The pages of each process, by the time of the snapshot.
pub(crate) struct PageSnapshots(HashMap<Pid, BTreeMap<Nanos, PageNodes>>);

impl PageSnapshots {
    pub(crate) fn new(pages: &[Page]) -> PageSnapshots {
        let mut snapshots = HashMap::new();
        for page in pages {
            let Some(node) = page.node else { continue };
            let of_process: &mut BTreeMap<_, PageNodes> = snapshots.entry(page.pid).or_default();
            let snapshot = of_process.entry(page.time).or_default();
            snapshot.insert(page.address.0, (page.stands_for.0, node.0));
        }
        PageSnapshots(snapshots)
    }

    /// Whether no page has a known node.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The node of an address: of the nearest page, in the snapshot nearest in time that has its stretch of memory.
    pub(crate) fn node(&self, pid: Pid, address: u64, time: Nanos) -> Option<u32> {
        let snapshots = self.0.get(&pid)?;
        let mut nearest: Vec<_> = snapshots.iter().collect();
        nearest.sort_by_key(|(snapshot, _)| snapshot.0.abs_diff(time.0));
        nearest.into_iter().find_map(|(_, pages)| {
            let below = pages.range(..=address).next_back();
            let above = pages.range(address..).next();
            let within = |(page, (stretch, node)): (&u64, &(u64, u32))| {
                let distance = page.abs_diff(address);
                (distance < *stretch).then_some((distance, *node))
            };
            let found = [below.and_then(within), above.and_then(within)];
            found.into_iter().flatten().min().map(|(_, node)| node)
        })
    }
}

/// Lines of a burst, by what it stands for.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Lines {
    /// On another node than its thread.
    pub(crate) remote: f64,
    /// On pages whose node is known.
    pub(crate) known: f64,
    pub(crate) all: f64,
}

/// The remote share of lines, percent; `None` where the nodes of more than half of them are not known. Of the others all may be remote, or
/// none: the interval includes both.
pub(crate) fn remote_share(bursts: &[Lines]) -> Option<Metric> {
    let sum = |part: fn(&Lines) -> f64| bursts.iter().map(part).sum::<f64>();
    let part = sum(|one| one.known) / sum(|one| one.all);
    if part < 0.5 {
        return None;
    }
    // Most bursts are remote as a whole or not at all: each counts as one observation, by its lines.
    let lines: Vec<(f64, f64)> = bursts.iter().map(|one| (one.remote, one.known)).collect();
    let known = share(&lines, Evidence::Estimated)?;
    Some(Metric {
        low: known.low.map(|low| low * part),
        high: known.high.map(|high| high * part + 100.0 * (1.0 - part)),
        ..known
    })
}

/// Lines of a function's bursts.
#[derive(Default)]
struct RemoteLines {
    bursts: Vec<Lines>,
    by_node: BTreeMap<u32, f64>,
    /// Remote ones, by object.
    objects: BTreeMap<usize, f64>,
}

impl RemoteLines {
    fn figure(
        &self,
        function: &HotFunction,
        objects: &Objects,
        nodes: f64,
    ) -> Option<RemoteFigure> {
        let remote = remote_share(&self.bursts)?;
        let known: f64 = self.bursts.iter().map(|one| one.known).sum();
        let largest = |a: &f64, b: &f64| a.total_cmp(b);
        let (node, lines) = self.by_node.iter().max_by(|a, b| largest(a.1, b.1))?;
        let object = self.objects.iter().max_by(|a, b| largest(a.1, b.1));
        let object = object.map(|(id, _)| &objects.all()[*id]).filter(|one| one.kind.is_named());
        Some(RemoteFigure {
            place: NamedLocation {
                object: object.map(|one| one.name.clone()),
                ..function.place.clone()
            },
            time: function.time.clone(),
            waits: function.waits.clone(),
            remote: remote.into(),
            fullest: lines / known * 100.0,
            fullest_node: *node,
            nodes,
        })
    }
}

struct Watcher<'a> {
    profile: &'a Profile<'a>,
    code: &'a TracedCode,
    objects: &'a Objects,
    threads: ThreadNodes,
    snapshots: PageSnapshots,
    /// The current burst: where it began, and what it touched.
    function: Option<FunctionId>,
    pages: TouchedPages,
    found: BTreeMap<FunctionId, RemoteLines>,
}

impl Tool for Watcher<'_> {
    type OfBurst = ();

    fn begin(&mut self, _: &Burst, _: usize) {
        self.function = None;
        self.pages = TouchedPages::default();
    }

    fn execute(&mut self, block: &TracedBlock, execution: &Execution<'_>) {
        for access in &block.accesses {
            if self.function.is_none() {
                let site = self.code.sites[access.site.index()];
                let stacks = &self.profile.stacks;
                self.function = Some(stacks.compiled_at(site.instruction));
            }
            execution.touches(access).for_each(|touch| self.pages.add(touch));
        }
    }

    fn end(&mut self, burst: &Burst) {
        let Some(function) = self.function.take() else { return };
        let Some(own) = self.threads.near(burst) else { return };
        let seen = self.found.entry(function).or_default();
        let mut of_burst = Lines::default();
        let window = Window { start: burst.time, end: burst.time + burst.elapsed };
        for (first, lines) in self.pages.drain() {
            of_burst.all += lines;
            let Some(node) = self.snapshots.node(burst.pid, first, burst.time) else { continue };
            of_burst.known += lines;
            *seen.by_node.entry(node).or_default() += lines;
            if node != own {
                of_burst.remote += lines;
                let object = self.objects.locate(burst.pid, RemoteAddr(first), window).0.object;
                *seen.objects.entry(object.index()).or_default() += lines;
            }
        }
        if of_burst.all > 0.0 {
            seen.bursts.push(of_burst);
        }
    }
}

/// The pages that a burst touched: of each a bit for each line.
#[derive(Default)]
pub(crate) struct TouchedPages(IndexMap<u64, u64>);

impl TouchedPages {
    pub(crate) fn add(&mut self, touch: Touch) {
        let pages = &mut self.0;
        match touch {
            Touch::Run { start, stride, count, .. } => {
                for_lines(start, stride, count, |page, lines| {
                    *pages.entry(page).or_default() |= lines;
                });
            }
            Touch::AtLeast { start, .. } => {
                *pages.entry(start / PAGE).or_default() |= 1 << (start % PAGE / LINE);
            }
            Touch::Unknown { .. } => {}
        }
    }

    /// The first touched address of each, and how many of its lines were touched.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = (u64, f64)> {
        self.0.drain().map(|(page, lines)| {
            let first = page * PAGE + u64::from(lines.trailing_zeros()) * LINE;
            (first, f64::from(lines.count_ones()))
        })
    }
}

/// Gives the pages of a run with the lines that it touches in each.
fn for_lines(start: u64, stride: i64, count: u64, mut take: impl FnMut(u64, u64)) {
    let step = stride.unsigned_abs();
    let way = step.saturating_mul(count.saturating_sub(1));
    let low = if stride < 0 { start.wrapping_sub(way) } else { start };
    if step > LINE {
        for number in 0..count.min(LONGEST) {
            let at = low.wrapping_add(step.wrapping_mul(number));
            take(at / PAGE, 1 << (at % PAGE / LINE));
        }
        return;
    }
    let (first, last) = (low / LINE, low.saturating_add(way) / LINE);
    for page in (first / 64..=last / 64).take(LONGEST as usize) {
        let from = if page == first / 64 { first % 64 } else { 0 };
        let to = if page == last / 64 { last % 64 } else { 63 };
        take(page, (u64::MAX >> (63 - (to - from))) << from);
    }
}

#[cfg(test)]
mod tests;
