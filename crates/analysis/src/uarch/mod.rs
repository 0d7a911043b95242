//! The top-down tree: which part of a core's pipeline slots and cycles went where, from counted events.
//!
//! ```text
//!   intel.tsv, amd.tsv, arm.tsv ──> Table of this CPU ──> groups of events to count ──> (collect)
//!   counted events ──> Estimates ──> formulas, once per replicate ──> shares with intervals, flags
//! ```
//! What for: levels 1 to 4 of Intel's tree, both of AMD's and what Arm publishes, for a whole run; of the code that samples of these events fell into, the
//! first two (`code`). What not: opening events (`collect::counting`).
//!
//! A node is over its threshold where the maker's condition holds, which includes its ancestors. It is said to be so only where
//! 97.5 % of the replicates agree.
//!
//! Source: A. Yasin, "A Top-Down method for performance analysis and counters architecture", ISPASS 2014; the makers' tables, as
//! `intel.tsv`, `amd.tsv` and `arm.tsv` name them.

mod code;
mod formula;
mod names;
mod table;
mod walks;

use std::collections::HashMap;

use estimate::{Estimate, REPLICATES};
use facts::host::Host;
use facts::{Evidence, Metric, Recording};

use crate::counted::Readings;
use table::{Node, Table};

pub use code::{CodeRow, CodeRows, by_code, events_of_code, trees_of_samples};
pub(crate) use names::{in_each_pmu, never_zero, plain};
pub(crate) use walks::events_of_walks;
pub use walks::walk_share;

/// What formulas may use except events: whether two threads share a core, ticks of the time-stamp counter, seconds.
const CONSTANTS: [&str; 3] = ["smt_on", "tsc", "duration_time"];
/// Counters of a core that any event may have, where a thread's neighbour has as many.
const COUNTERS: usize = 4;
/// Events that have a counter of their own, so that they take none from others.
const FIXED: [&str; 3] =
    ["inst_retired.any", "cpu_clk_unhalted.thread", "cpu_clk_unhalted.ref_tsc"];
/// Must lead the group of those that begin with [`SLOT_PARTS`] (arch/x86/events/intel/core.c, "topdown").
const SLOTS: &str = "topdown.slots:perf_metrics";
const SLOT_PARTS: &str = "perf_metrics.";
/// Why a recording has no tree at all.
const NOT_COUNTED: &str = "the events of the top-down tree were not counted: `fathom collect uarch-exploration` counts \
                           them where the cores have a PMU";
/// Replicates that must agree.
const SURE: f64 = 0.975;

/// Whether a node is over its threshold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ThresholdState {
    /// Its ancestors too.
    Yes,
    /// The counts do not decide it.
    Perhaps,
    /// Or an ancestor is not.
    No,
}

impl ThresholdState {
    /// The name in views.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            ThresholdState::Yes => "yes",
            ThresholdState::Perhaps => "perhaps",
            ThresholdState::No => "no",
        }
    }
}

/// A node with its share.
#[derive(Clone, PartialEq, Debug)]
pub struct NodeShare {
    /// Its name in the maker's table, in lower case.
    pub name: &'static str,
    /// Titles from level 1 to it.
    pub path: Vec<&'static str>,
    /// `slots`, `cycles`, `uops`, `stalled cycles`, or `parent's cycles`: those of the node above.
    pub of: &'static str,
    /// In percent of these.
    pub share: Metric,
    /// `None`: it has no threshold, or not all of it is known.
    pub over: Option<ThresholdState>,
    /// The view to look at next.
    pub next: Option<&'static str>,
}

/// The tree of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct Tree {
    /// The processor family of its table.
    pub cpu: &'static str,
    /// Which cores, where a machine has several kinds.
    pub cores: Option<&'static str>,
    /// Parents before children.
    pub nodes: Vec<NodeShare>,
}

/// An event to count, where the kernel counts it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct EventToCount {
    /// Its name in the maker's table.
    pub name: &'static str,
    /// The terms of the PMU.
    pub terms: &'static str,
    /// The cores' PMU: of a hybrid each kind has one.
    pub pmu: &'static str,
}

impl EventToCount {
    /// The name that tells kinds of cores apart.
    #[must_use]
    pub fn full_name(&self) -> String {
        match self.pmu {
            CORES => self.name.to_owned(),
            pmu => format!("{pmu}/{}/", self.name),
        }
    }
}

/// The PMU of cores that are all alike.
const CORES: &str = "cpu";

/// The groups of events that the tree of this CPU needs.
///
/// # Errors
/// Says that there is no table for it.
pub fn groups(host: &Host) -> Result<Vec<Vec<EventToCount>>, String> {
    Ok(Table::all_of(host)?.iter().flat_map(groups_of).collect())
}

fn groups_of(table: &Table) -> Vec<Vec<EventToCount>> {
    let pmu = table.pmu.unwrap_or(CORES);
    let event = |&(name, terms): &(&'static str, Option<&'static str>)| {
        Some(EventToCount { name, terms: terms?, pmu })
    };
    let mut left: Vec<EventToCount> = table.events.iter().filter_map(event).collect();
    let mut take = |wanted: &dyn Fn(&str) -> bool| -> Vec<EventToCount> {
        let (taken, rest) = left.iter().partition(|one| wanted(one.name));
        left = rest;
        taken
    };
    let mut slots = take(&|name| name == SLOTS);
    slots.extend(take(&|name| name.starts_with(SLOT_PARTS)));
    let fixed = take(&|name| FIXED.contains(&name));
    let mut groups: Vec<Vec<EventToCount>> = fixed.into_iter().map(|one| vec![one]).collect();
    groups.insert(0, slots);
    // Events of one formula at the same times, as far as counters go.
    let mut group = Vec::new();
    for formula in table.nodes.iter().filter_map(|node| table.formulas.get(node.name)) {
        let direct = table.direct_events(formula);
        let together = take(&|name| direct.contains(&name));
        if group.len() + together.len() > COUNTERS {
            groups.push(std::mem::take(&mut group));
        }
        group.extend(together);
    }
    group.extend(take(&|_| true));
    groups.push(group);
    let split = groups.iter().enumerate().flat_map(|(at, group)| {
        group
            .chunks(if at == 0 { group.len().max(1) } else { COUNTERS })
            .map(<[EventToCount]>::to_vec)
    });
    split.filter(|group| !group.is_empty()).collect()
}

/// The tree of a recording; of a hybrid's performance cores.
///
/// # Errors
/// Says why there is none.
pub fn tree(recording: &Recording) -> Result<Tree, String> {
    trees(recording).map(|mut trees| trees.remove(0))
}

/// The trees of the machine's kinds of cores.
///
/// # Errors
/// Says why there is none.
pub fn trees(recording: &Recording) -> Result<Vec<Tree>, String> {
    if recording.counted_events.is_empty() {
        return Err(NOT_COUNTED.to_owned());
    }
    let tables = Table::all_of(&recording.run.host)?;
    let (trees, missing): (Vec<_>, Vec<_>) =
        tables.iter().map(|table| tree_of(table, recording)).partition(Result::is_ok);
    let trees: Vec<Tree> = trees.into_iter().flatten().collect();
    match missing.into_iter().find_map(Result::err) {
        Some(why) if trees.is_empty() => Err(why),
        _ => Ok(trees),
    }
}

fn tree_of(table: &Table, recording: &Recording) -> Result<Tree, String> {
    let counts = counts(recording, table);
    let has =
        |name: &str| counts.contains_key(name) || counts.contains_key(&name.replace('.', "_"));
    if !table.events.iter().any(|(name, _)| has(name)) {
        return Err(NOT_COUNTED.to_owned());
    }
    let readings = recording.event_counts.len() as u64;
    let known = FormulaValues { table, constants: constants(recording), counts };
    Ok(Tree { cpu: table.cpu, cores: table.cores(), nodes: known.shares(usize::MAX, readings) })
}

/// Counts by the tables' names of events; an error says why an event has none.
type Counts = HashMap<String, Result<Estimate, String>>;

fn counts(recording: &Recording, table: &Table) -> Counts {
    let readings = Readings::new(recording);
    let read = recording.counted_events.iter().filter(|event| readings.has(event));
    let of_cores = read.filter(|event| names::is_of(&event.name, table.pmu));
    names::by_table(of_cores.map(|event| (event.name.as_str(), readings.estimate(event))))
}

/// What was counted, by the tables' names and by those of the kernel.
pub(crate) fn counts_by_name(recording: &Recording) -> HashMap<String, Result<Estimate, String>> {
    counts(recording, &Table::default())
}

/// Values of [`CONSTANTS`].
fn constants(recording: &Recording) -> [Result<f64, String>; CONSTANTS.len()] {
    let host = &recording.run.host;
    let end = base::Nanos(recording.run.elapsed_ns);
    let seconds = recording.pauses().observed(base::Nanos(0), end).seconds();
    let threads = match host.cores {
        0 => Err("it is not known whether two threads share a core".to_owned()),
        cores => Ok(f64::from(u8::from(host.logical_cpus > cores))),
    };
    let no_clock = || "the frequency of the time-stamp counter is not known".to_owned();
    [threads, host.tsc_hz.map(|hz| hz * seconds).ok_or_else(no_clock), Ok(seconds)]
}

/// A node in one replicate.
struct Value {
    /// A part of 1.
    share: Result<f64, String>,
    over: Option<bool>,
}

/// All that formulas may use.
struct FormulaValues<'a> {
    table: &'a Table,
    constants: [Result<f64, String>; CONSTANTS.len()],
    counts: Counts,
}

impl FormulaValues<'_> {
    /// The nodes of the first `levels` levels, with intervals.
    fn shares(&self, levels: usize, readings: u64) -> Vec<NodeShare> {
        let nodes: Vec<&Node> =
            self.table.nodes.iter().filter(|node| path(self.table, node).len() <= levels).collect();
        let point = self.nodes(&nodes, None);
        let exact = self.counts.values().flatten().all(|count| count.replicate(0) == count.point());
        let replicates = if exact { 0 } else { REPLICATES };
        let again: Vec<_> = (0..replicates).map(|at| self.nodes(&nodes, Some(at))).collect();
        let share = |(at, node): (usize, &&Node)| {
            let all = again.iter().map(|one| one[at].share.as_ref().copied().unwrap_or(f64::NAN));
            let share = metric(node, &point[at].share, all.collect(), readings);
            let over = |one: &Vec<Value>| one[at].over.map(f64::from);
            let (now, then) = (point[at].over, again.iter().filter_map(over).collect::<Vec<_>>());
            NodeShare {
                name: node.name,
                path: path(self.table, node),
                of: node.of,
                over: share.value.and(now).map(|now| decide(now, &then)),
                share,
                next: node.next,
            }
        };
        nodes.iter().enumerate().map(share).collect()
    }

    /// These nodes, with the best values of the counts or with those of a replicate.
    fn nodes(&self, nodes: &[&Node], replicate: Option<usize>) -> Vec<Value> {
        let mut found = HashMap::new();
        let value = |node: &&Node| {
            let share = self.value(node.name, replicate, &mut found);
            let mut percent = |name: &str| Ok(self.value(name, replicate, &mut found)? * 100.0);
            let over = node.threshold.as_ref().map(|threshold| threshold.value(&mut percent));
            Value { share, over: over.and_then(Result::ok).map(|truth| truth != 0.0) }
        };
        nodes.iter().map(value).collect()
    }

    fn value(
        &self,
        name: &str,
        replicate: Option<usize>,
        found: &mut HashMap<String, Result<f64, String>>,
    ) -> Result<f64, String> {
        if let Some(value) = found.get(name) {
            return value.clone();
        }
        // Until it has a value: a formula that refers to itself has none.
        found.insert(name.to_owned(), Err(format!("{name} refers to itself")));
        let value = self.compute(name, replicate, found);
        found.insert(name.to_owned(), value.clone());
        value
    }

    fn compute(
        &self,
        name: &str,
        replicate: Option<usize>,
        found: &mut HashMap<String, Result<f64, String>>,
    ) -> Result<f64, String> {
        if let Some(formula) = self.table.formulas.get(name) {
            return formula.value(&mut |name| self.value(name, replicate, found));
        }
        if let Some(at) = CONSTANTS.iter().position(|constant| *constant == name) {
            return self.constants[at].clone();
        }
        // likwid has no dots in names.
        match self.counts.get(name).or_else(|| self.counts.get(&name.replace('.', "_"))) {
            Some(Ok(count)) => Ok(replicate.map_or(count.point(), |at| count.replicate(at))),
            Some(Err(why)) => Err(why.clone()),
            None if name.ends_with(":retire_latency") => {
                Err(format!("{name} is a latency that only samples have"))
            }
            None => Err(format!("{name} was not counted")),
        }
    }
}

fn path(table: &Table, node: &Node) -> Vec<&'static str> {
    let above = |node: &&Node| table.nodes.iter().find(|one| Some(one.name) == node.parent);
    let mut path: Vec<&str> =
        std::iter::successors(Some(node), above).map(|node| node.title).collect();
    path.reverse();
    path
}

fn metric(node: &Node, share: &Result<f64, String>, replicates: Vec<f64>, readings: u64) -> Metric {
    let percent = match share {
        Err(why) => return Metric::unavailable("percent", why),
        Ok(share) if !share.is_finite() => {
            return Metric::unavailable("percent", "its counts do not fit each other");
        }
        Ok(share) => share * 100.0,
    };
    let whole = Metric::counted(percent, "percent");
    let exact = replicates.iter().all(|one| *one * 100.0 == percent);
    let evidence = match (node.modelled, exact) {
        (true, _) => Evidence::Modelled,
        (false, true) => return whole,
        (false, false) => Evidence::Estimated,
    };
    if exact || replicates.iter().all(|one| one.is_nan()) {
        let (low, high) = (None, None);
        return Metric { low, high, evidence: Some(evidence), ..whole };
    }
    let replicates = replicates.into_iter().map(|one| one * 100.0).collect();
    let interval = Estimate::new(percent, replicates).interval();
    Metric::with_interval(evidence, percent, "percent", interval, readings)
}

/// From the best values and from replicates.
fn decide(now: bool, replicates: &[f64]) -> ThresholdState {
    let over = match replicates.len() {
        0 => f64::from(u8::from(now)),
        all => replicates.iter().sum::<f64>() / all as f64,
    };
    match over {
        over if over >= SURE => ThresholdState::Yes,
        over if over <= 1.0 - SURE => ThresholdState::No,
        _ => ThresholdState::Perhaps,
    }
}
