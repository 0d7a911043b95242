//! Cycles per instruction and the top-down tree of pieces of code, from samples of the events.
//!
//! What for: levels 1 and 2 per function, line, module or thread; deeper ones need more events than a sampling run has counters for.
//! What not: the sums (`counted_code`), formulas (`formula`).
//!
//! A sample's skid moves its count to a later instruction, seldom to another function. Few samples decide nothing: a row with
//! fewer than [`FEWEST`] samples of cycles has no tree.

use std::collections::BTreeSet;

use estimate::Estimate;
use facts::host::Host;
use facts::{CountedEvent, Evidence, Metric};

use super::names::{CYCLES, INSTRUCTIONS, by_table, in_each_pmu, is_of};
use super::table::Table;
use super::{CONSTANTS, EventToCount, FormulaValues, NodeShare, Tree};
use crate::counted_code::{CountedCode, CountedRow, sampled_metric};
use crate::hotspots::{Key, RowKey};
use crate::parallel;
use crate::profile::Profile;
use crate::selection::Selection;
use crate::stack::{CallPaths, LocationId};

/// Samples of cycles that a tree needs.
const FEWEST: u64 = 10;
/// Samples that read a whole group and tell something of its ratios.
const FEWEST_OF_RATIO: u64 = 2;
/// Levels of the tree.
const LEVELS: usize = 2;

/// A piece of code.
#[derive(Clone, PartialEq, Debug)]
pub struct CodeRow {
    /// What it is.
    pub key: RowKey,
    /// The place in it with the most samples.
    pub place: LocationId,
    /// Samples of cycles.
    pub samples: u64,
    /// Cycles of the cores.
    pub cycles: Metric,
    /// Share of all sampled cycles, percent.
    pub cycles_percent: Metric,
    /// Instructions that retired.
    pub instructions: Metric,
    /// Cycles per instruction.
    pub cpi: Metric,
    /// The first levels of the tree, parents before children; empty where there is none.
    pub nodes: Vec<NodeShare>,
}

/// All of them.
pub struct CodeRows {
    /// Most cycles first.
    pub rows: Vec<CodeRow>,
    /// Of rows by call stack.
    pub paths: Option<CallPaths>,
    /// The processor family of the tree's table, or why there is none.
    pub table: Result<&'static str, String>,
}

/// The events that rows by code need, for samples: those of the first [`LEVELS`] levels; for parts of PERF_METRICS, which takes
/// no samples, the events that count the same.
///
/// # Errors
/// Says that there is no table for this CPU.
pub fn events_of_code(host: &Host) -> Result<Vec<EventToCount>, String> {
    Ok(Table::all_of(host)?.iter().flat_map(events_of_table).collect())
}

fn events_of_table(table: &Table) -> Vec<EventToCount> {
    let pmu = table.pmu.unwrap_or(super::CORES);
    let wanted = table.nodes.iter().filter(|node| super::path(table, node).len() <= LEVELS);
    let mut left: Vec<String> = wanted.map(|node| node.name.to_owned()).collect();
    let (mut seen, mut parts) = (BTreeSet::new(), false);
    let mut events = Vec::new();
    while let Some(name) = left.pop() {
        if !seen.insert(name.clone()) {
            continue;
        }
        if let Some(formula) = table.formulas.get(name.as_str()) {
            let mut names = Vec::new();
            formula.names(&mut names);
            left.extend(names.into_iter().map(str::to_owned));
        } else if name.contains("perf_metrics") {
            parts = true;
        } else if let Some(&(name, Some(terms))) = table.events.iter().find(|one| one.0 == name) {
            events.push(EventToCount { name, terms, pmu });
        }
    }
    if parts {
        let sampled = table.sampled.iter();
        events.extend(sampled.map(|&(name, terms)| EventToCount { name, terms, pmu }));
    }
    events.sort_unstable();
    let mut seen = BTreeSet::new();
    events.retain(|event| seen.insert(event.terms));
    events
}

/// Rows by `keys`, without keys one.
///
/// # Errors
/// Says why there are none.
pub fn by_code(
    profile: &Profile<'_>,
    selection: &Selection,
    keys: &[Key],
) -> Result<CodeRows, String> {
    let code = CountedCode::new(profile, selection, keys);
    let names = code.sampled().map(|(at, event)| (at, event.name.clone()));
    let names: Vec<(usize, String)> = names.collect();
    let of = |wanted: &[&str]| in_each_pmu(names.iter().cloned(), wanted);
    let (cycles, instructions) = (of(&CYCLES), of(&INSTRUCTIONS));
    if cycles.is_empty() {
        return Err("cycles of the cores were not sampled: `perf record -e cycles,instructions` samples them, and `fathom collect \
                    uarch-exploration` where the cores have a PMU"
            .to_owned());
    }
    let table = Table::of(&profile.recording.run.host);
    let rows = parallel::each(&code.rows, |row| {
        one(&code, row, [&cycles, &instructions], table.as_ref().ok())
    });
    let mut rows: Vec<CodeRow> = rows.into_iter().flatten().collect();
    rows.sort_by(|a, b| {
        let of = |row: &CodeRow| row.cycles.value.unwrap_or(0.0);
        of(b).total_cmp(&of(a)).then_with(|| a.key.cmp(&b.key))
    });
    let table = table.map(|table| table.cpu);
    Ok(CodeRows { rows, paths: code.paths, table })
}

/// The whole trees of the selected code, from samples.
///
/// # Errors
/// Says why there is none.
pub fn trees_of_samples(profile: &Profile<'_>, selection: &Selection) -> Result<Vec<Tree>, String> {
    let tables = Table::all_of(&profile.recording.run.host)?;
    let code = CountedCode::new(profile, selection, &[]);
    let Some(row) = code.rows.first() else {
        return Err("no sample of a counted event is selected".to_owned());
    };
    let mut why = None;
    let mut trees = Vec::new();
    for table in &tables {
        let nodes = nodes(&code, row, table, usize::MAX);
        if nodes.iter().any(|node| node.share.value.is_some()) {
            trees.push(Tree { cpu: table.cpu, cores: table.cores(), nodes });
        } else {
            why = why.or_else(|| nodes.first().and_then(|node| node.share.note.clone()));
        }
    }
    let none = || why.unwrap_or_else(|| "the samples are of other events".to_owned());
    if trees.is_empty() { Err(none()) } else { Ok(trees) }
}

/// `None` for code without a sample of cycles or instructions.
fn one(
    code: &CountedCode<'_>,
    row: &CountedRow,
    [cycles, instructions]: [&[usize]; 2],
    table: Option<&Table>,
) -> Option<CodeRow> {
    let samples = |events: &[usize]| events.iter().map(|event| row.samples(*event)).sum::<u64>();
    if samples(cycles) + samples(instructions) == 0 {
        return None;
    }
    let sum = |events: &[usize]| {
        let mut all = events.iter().filter_map(|event| code.estimate(row, *event).ok());
        let first = all.next()?;
        Some(all.fold(first, |sum, one| sum + &one))
    };
    let (spent, retired) = (sum(cycles)?, sum(instructions));
    let count = |count: &Estimate, events| sampled_metric(count, "count", samples(events));
    let not_sampled = || Metric::unavailable("count", "instructions were not sampled");
    let percent = match cycles {
        [only] => code.percent(row, *only),
        _ => Metric::unavailable("percent", "cores of two kinds have cycles of their own"),
    };
    Some(CodeRow {
        key: row.key,
        place: row.place,
        samples: samples(cycles),
        cycles: count(&spent, cycles),
        cycles_percent: percent,
        instructions: retired.as_ref().map_or_else(not_sampled, |one| count(one, instructions)),
        cpi: ratio(&spent, retired.as_ref(), (samples(cycles), samples(instructions))),
        nodes: table.map_or_else(Vec::new, |table| nodes(code, row, table, LEVELS)),
    })
}

fn ratio(cycles: &Estimate, instructions: Option<&Estimate>, samples: (u64, u64)) -> Metric {
    let none = |why: &str| Metric::unavailable("ratio", why);
    let Some(instructions) = instructions else { return none("instructions were not sampled") };
    let fewest = samples.0.min(samples.1);
    if fewest < FEWEST_OF_RATIO {
        return none(&format!("{fewest} samples of it, {FEWEST_OF_RATIO} are needed"));
    }
    let ratio = Estimate::of([cycles, instructions], |[cycles, instructions]| {
        if instructions > 0.0 { cycles / instructions } else { f64::NAN }
    });
    let interval = ratio.interval();
    Metric::with_interval(Evidence::Estimated, ratio.point(), "ratio", interval, fewest)
}

fn nodes(code: &CountedCode<'_>, row: &CountedRow, table: &Table, levels: usize) -> Vec<NodeShare> {
    let of_cores: Vec<(usize, &CountedEvent)> =
        code.sampled().filter(|(_, event)| is_of(&event.name, table.pmu)).collect();
    let names = of_cores.iter().map(|(at, event)| (*at, event.name.clone()));
    let cycles = in_each_pmu(names, &CYCLES);
    let samples: u64 = cycles.iter().map(|event| row.samples(*event)).sum();
    let counts = of_cores.iter().map(|(at, one)| (one.name.as_str(), code.estimate(row, *at)));
    let mut counts = by_table(counts);
    no_slots_are_left(&mut counts);
    if samples < FEWEST {
        let few = format!("{samples} samples of cycles, {FEWEST} are needed");
        counts.values_mut().for_each(|count| *count = Err(few.clone()));
    }
    let whole_run = |name| Err(format!("{name} is known of the whole run only"));
    let [smt, ..] = super::constants(code.recording);
    let constants = [smt, whole_run(CONSTANTS[1]), whole_run(CONSTANTS[2])];
    FormulaValues { table, constants, counts }.shares(levels, samples)
}

/// Where common counters took the place of PERF_METRICS and none counts bad speculation (Ice Lake to Rocket Lake), it is what is left
/// of the slots.
fn no_slots_are_left(counts: &mut super::Counts) {
    const MISSING: &str = "perf_metrics.bad_speculation";
    if counts.contains_key(MISSING) {
        return;
    }
    let known = |name: &str| counts.get(name).and_then(|count| count.as_ref().ok());
    let all = [
        known("topdown.slots:perf_metrics"),
        known("perf_metrics.retiring"),
        known("perf_metrics.frontend_bound"),
        known("perf_metrics.backend_bound"),
    ];
    if let [Some(slots), Some(retiring), Some(front), Some(back)] = all {
        let left =
            Estimate::of([slots, retiring, front, back], |[slots, retiring, front, back]| {
                (slots - retiring - front - back).max(0.0)
            });
        counts.insert(MISSING.to_owned(), Ok(left));
    }
}
