//! `stacks`: call stacks with their figures as one compact document, from which the page makes trees, flame graphs and groupings.
//!
//! What for: a filter or another grouping needs no request. What not: a view of the command line.
//! It also says which lanes the timeline has, so that none comes in with a later answer and moves those below it.
//! Tables are arrays, and refer to each other by position; `docs/format/stacks.md` has the meaning of each.

use std::collections::BTreeSet;

use analysis::faults::fault_scales;
use analysis::heap::heap_allocated;
use analysis::stack_cells::{FigureCells, StackCells, StackFigure, StackTreeNode, stack_cells};
use analysis::timeline::largest_resident;
use analysis::{LocationId, Profile, RegionParts, Selection, threading};
use base::{CpuId, Nanos};
use facts::{Evidence, MarkKind, MarkedRegion, Metric};
use serde::Serialize;

use crate::json::{significant, tidy};
use crate::views::by_region::{MOST as MOST_REGIONS, too_short};
use crate::{Filter, Prepared, ReportError};

#[derive(Serialize)]
struct StacksDocument {
    view: &'static str,
    result: String,
    elapsed: f64,
    threads: Vec<ThreadEntry>,
    cpus: Vec<CpuEntry>,
    over_time: Vec<&'static str>,
    /// Marks of the user or the program, and pauses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    marks: Vec<MarkEntry>,
    /// Regions that the program marked, in the order of their numbers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    regions: Vec<RegionEntry>,
    modules: Vec<String>,
    files: Vec<String>,
    functions: FunctionColumns,
    nodes: NodeColumns,
    figures: Vec<Figure>,
    notes: Vec<String>,
}

#[derive(Serialize)]
struct ThreadEntry {
    label: String,
    process: String,
    start: f64,
    end: f64,
}

#[derive(Serialize)]
struct MarkEntry {
    from: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<f64>,
    name: String,
}

#[derive(Serialize)]
struct RegionEntry {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    domain: Option<String>,
    /// Time in it, seconds.
    time: f64,
    threads: Vec<usize>,
}

#[derive(Serialize)]
struct CpuEntry {
    cpu: u32,
    /// `None`: the machine does not say.
    node: Option<u32>,
}

#[derive(Serialize, Default)]
pub(crate) struct FunctionColumns {
    name: Vec<String>,
    module: Vec<usize>,
    /// -1: not known.
    file: Vec<i64>,
}

#[derive(Serialize, Default)]
pub(crate) struct NodeColumns {
    /// -1: a root.
    parent: Vec<i64>,
    function: Vec<usize>,
    /// 0: not known.
    line: Vec<u32>,
    /// 1: inlined into its caller.
    inlined: Vec<u8>,
}

#[derive(Serialize)]
struct Figure {
    key: &'static str,
    label: &'static str,
    /// Everything, whatever is selected.
    whole: Metric,
    /// Value of an amount of 1 in the unit of `whole`.
    factor: f64,
    records: u64,
    /// Equally weighted ones behind `whole`, or behind the drawn part of it, whatever is selected; 0 where all of it was counted
    /// one by one.
    observations: f64,
    /// Of `whole`, what is known from blocks drawn at random; the others have a record each. Absent: all of it was sampled.
    #[serde(skip_serializing_if = "Option::is_none")]
    drawn: Option<f64>,
    left_out: f64,
    bin_seconds: f64,
    cells: CellColumns,
    lane_seconds: f64,
    lanes: LaneColumns,
}

#[derive(Serialize, Default)]
struct CellColumns {
    node: Vec<u32>,
    /// -1: threads are merged.
    thread: Vec<i64>,
    bin: Vec<u32>,
    kernel: Vec<u8>,
    amount: Vec<f64>,
    /// Position of the innermost region; -1: in none. Only where regions are asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    region: Vec<i64>,
}

#[derive(Serialize, Default)]
struct LaneColumns {
    thread: Vec<usize>,
    bin: Vec<u32>,
    kernel: Vec<u8>,
    amount: Vec<f64>,
}

/// The document as JSON on one line. Filters on time, thread, process and memory objects choose what is in it; others are
/// for the page. `by_region`: each cell is of one region that the program marks, the innermost.
///
/// # Errors
/// When a filter matches nothing.
pub fn stacks(
    prepared: &Prepared<'_>,
    filters: &[Filter],
    by_region: bool,
    result: &str,
) -> Result<String, ReportError> {
    let (profile, objects) = (&prepared.profile, prepared.objects());
    let mut selection = Selection::resolve(profile, filters)?;
    selection.choose_objects(objects, filters)?;
    let regions = by_region.then(|| selection.by_region(profile, MOST_REGIONS));
    let found = stack_cells(profile, objects, &selection, regions.as_ref());
    let document = document(profile, &found, regions.as_ref(), result);
    // Only maps with keys that are not text can fail to serialise, and there are none.
    Ok(serde_json::to_string(&document).unwrap_or_default())
}

fn document(
    profile: &Profile<'_>,
    found: &StackCells,
    divided: Option<&RegionParts>,
    result: &str,
) -> StacksDocument {
    let thread = |thread: &analysis::Thread| ThreadEntry {
        label: thread.label(),
        process: profile.threads.process_label(thread.pid),
        start: thread.start.seconds(),
        end: thread.end.seconds(),
    };
    let mut names = Names::default();
    let nodes = nodes(profile, &found.nodes, &mut names);
    let positions = divided.map(|divided| positions(profile, divided));
    let figure = |cells| figure(profile, cells, positions.as_deref());
    let figures: Vec<Figure> = found.figures.iter().map(figure).collect();
    let notes = found.figures.iter().zip(&figures).flat_map(|(cells, figure)| {
        let label = figure.label;
        let merged = cells.cells.iter().any(|cell| cell.thread.is_none());
        let merged = merged.then(|| format!("{label}: too many stacks to distinguish threads here."));
        let share = cells.left_out / cells.whole * 100.0;
        let left_out = (cells.left_out > 0.0).then(|| {
            format!("{label}: {share:.1} % of it is in stacks too small to be shown. They are left out here.")
        });
        merged.into_iter().chain(left_out)
    });
    let too_short = divided.filter(|divided| !divided.too_short.is_empty()).map(too_short);
    let notes = notes.chain(too_short).collect();
    StacksDocument {
        view: "stacks",
        result: result.to_owned(),
        elapsed: profile.elapsed().seconds(),
        threads: profile.threads.all().iter().map(thread).collect(),
        cpus: cpus(profile),
        over_time: over_time(profile),
        marks: marks(profile),
        regions: regions(profile),
        modules: names.modules.list,
        files: names.files.list,
        functions: names.functions,
        nodes,
        notes,
        figures,
    }
}

/// The CPUs on which samples were taken, each with its NUMA node where the machine says.
fn cpus(profile: &Profile<'_>) -> Vec<CpuEntry> {
    let mut seen = BTreeSet::new();
    // Of millions of samples the next is mostly of a CPU that one of the last was of.
    let mut last: [Option<CpuId>; 8] = [None; 8];
    for (at, cpu) in profile.recording.samples.iter().filter_map(|one| one.cpu).enumerate() {
        if !last.contains(&Some(cpu)) {
            seen.insert(cpu);
            last[at % last.len()] = Some(cpu);
        }
    }
    let nodes = &profile.recording.run.host.numa_nodes;
    let node = |cpu: &CpuId| nodes.iter().find(|node| node.cpus.contains(&cpu.0));
    seen.iter().map(|cpu| CpuEntry { cpu: cpu.0, node: node(cpu).map(|node| node.id) }).collect()
}

fn marks(profile: &Profile<'_>) -> Vec<MarkEntry> {
    let pause = |(start, end): &(Nanos, Nanos)| MarkEntry {
        from: start.seconds(),
        to: Some(end.seconds()),
        name: "paused: nothing was observed".to_owned(),
    };
    let named = profile.recording.marks.iter().filter(|mark| mark.kind == MarkKind::Mark);
    let named = named.map(|mark| MarkEntry {
        from: mark.time.seconds(),
        to: None,
        name: mark.name.clone(),
    });
    profile.pauses().all().iter().map(pause).chain(named).collect()
}

fn regions(profile: &Profile<'_>) -> Vec<RegionEntry> {
    let of = &profile.recording.marked_regions;
    let mut times = vec![0.0; of.len()];
    let mut threads = vec![BTreeSet::new(); of.len()];
    for pass in &profile.recording.marked_passes {
        let at = pass.region as usize;
        if let (Some(time), Some(thread)) =
            (times.get_mut(at), profile.threads.find(pass.pid, pass.tid))
        {
            *time += pass.inside.seconds();
            threads[at].insert(thread.index());
        }
    }
    let entry = |((region, time), threads): ((&MarkedRegion, f64), BTreeSet<usize>)| RegionEntry {
        name: region.name.clone(),
        domain: region.domain.clone(),
        time,
        threads: threads.into_iter().collect(),
    };
    of.iter().zip(times).zip(threads).map(entry).collect()
}

/// Figures that other documents have over time: `bandwidth` where bursts were taken, though they may be too few to tell it;
/// `resident` where memory was polled and the table over time has it.
fn over_time(profile: &Profile<'_>) -> Vec<&'static str> {
    let bandwidth = !profile.recording.bursts.is_empty();
    let resident = !threading::was_recorded(profile) && largest_resident(profile) > Some(0);
    let found = [("bandwidth", bandwidth), ("resident", resident)];
    found.iter().filter(|(_, is)| *is).map(|(name, _)| *name).collect()
}

pub(crate) fn nodes(
    profile: &Profile<'_>,
    found: &[StackTreeNode],
    names: &mut Names,
) -> NodeColumns {
    let mut columns = NodeColumns::default();
    for node in found {
        let place = profile.stacks.places[node.place.index()];
        columns.parent.push(node.parent.map_or(-1, i64::from));
        columns.function.push(names.function(profile, node.place));
        columns.line.push(place.line.unwrap_or(0));
        columns.inlined.push(u8::from(place.inlined));
    }
    columns
}

/// Texts that are written once.
#[derive(Default)]
pub(crate) struct Texts {
    pub(crate) list: Vec<String>,
    known: std::collections::HashMap<String, usize>,
}

impl Texts {
    fn position(&mut self, text: &str) -> usize {
        if let Some(&known) = self.known.get(text) {
            return known;
        }
        self.list.push(text.to_owned());
        self.known.insert(text.to_owned(), self.list.len() - 1);
        self.list.len() - 1
    }
}

/// Names that nodes refer to by position.
#[derive(Default)]
pub(crate) struct Names {
    pub(crate) modules: Texts,
    pub(crate) files: Texts,
    pub(crate) functions: FunctionColumns,
    known: std::collections::HashMap<usize, usize>,
}

impl Names {
    fn function(&mut self, profile: &Profile<'_>, place: LocationId) -> usize {
        let id = profile.stacks.places[place.index()].function.index();
        if let Some(&known) = self.known.get(&id) {
            return known;
        }
        let function = profile.stacks.function_of(place);
        let file = function.file.as_ref().map(|file| self.files.position(file) as i64);
        self.functions.name.push(function.name.clone());
        self.functions.module.push(self.modules.position(&profile.stacks.module_of(place).name));
        self.functions.file.push(file.unwrap_or(-1));
        self.known.insert(id, self.functions.name.len() - 1);
        self.functions.name.len() - 1
    }
}

/// The whole, and what an amount of 1 is in its unit.
pub(crate) fn of_scale(scale: &analysis::Scale) -> (Metric, f64) {
    let whole = scale.whole_quantity();
    let amount = scale.whole().amount() as f64;
    let factor = whole.value.filter(|_| amount > 0.0).map_or(1.0, |value| value / amount);
    (whole, factor)
}

/// Of each part its position among the regions; -1: what is in none.
fn positions(profile: &Profile<'_>, divided: &RegionParts) -> Vec<i64> {
    let position =
        |name: &str| profile.recording.marked_regions.iter().position(|region| region.name == name);
    let of = |(name, _): &(Option<String>, Selection)| {
        name.as_deref().and_then(position).map_or(-1, |at| at as i64)
    };
    divided.parts.iter().map(of).collect()
}

/// `regions`: of each part its position.
fn figure(profile: &Profile<'_>, found: &FigureCells, regions: Option<&[i64]>) -> Figure {
    let (key, label) = match found.figure {
        StackFigure::CpuTime => ("cpu_time", "CPU time"),
        StackFigure::PageFaults => ("page_faults", "Page faults"),
        StackFigure::Allocations => ("allocations", "Allocations"),
        StackFigure::AllocatedBytes => ("bytes_allocated", "Bytes allocated"),
    };
    let (whole, factor) = match found.figure {
        StackFigure::CpuTime => of_scale(&profile.cpu_scale()),
        StackFigure::PageFaults => of_scale(&fault_scales(profile.recording).all),
        // Weights of blocks drawn at random make their sums right already.
        StackFigure::Allocations => (heap_allocated(profile.recording).0, 1.0),
        StackFigure::AllocatedBytes => (heap_allocated(profile.recording).1, 1.0),
    };
    // Of samples a part is never exact: the clock saw one of many moments.
    let counted = found.all.alone && whole.evidence == Some(Evidence::Counted);
    let exact = counted
        && found.figure != StackFigure::CpuTime
        && whole.value == Some(found.all.amount * factor);
    let is_heap = matches!(found.figure, StackFigure::Allocations | StackFigure::AllocatedBytes);
    // Of what has no record, how much there is is known from the counted whole.
    let drawn = whole.value.filter(|_| is_heap && !exact);
    let drawn = drawn.map(|whole| significant((whole - found.all.sure).max(0.0)));
    let observations = match drawn {
        _ if exact => 0.0,
        Some(_) => significant(found.all.drawn),
        None => significant(found.all.effective),
    };
    let mut cells = CellColumns::default();
    for cell in &found.cells {
        cells.node.push(cell.node);
        cells.thread.push(cell.thread.map_or(-1, |thread| thread.index() as i64));
        cells.bin.push(cell.bin);
        cells.kernel.push(u8::from(cell.kernel));
        cells.amount.push(significant(cell.amount));
        let region = |of: &[i64]| cell.part.and_then(|part| of.get(part as usize)).copied();
        cells.region.extend(regions.map(|of| region(of).unwrap_or(-1)));
    }
    let mut lanes = LaneColumns::default();
    for cell in &found.lanes {
        lanes.thread.push(cell.thread.index());
        lanes.bin.push(cell.bin);
        lanes.kernel.push(u8::from(cell.kernel));
        lanes.amount.push(significant(cell.amount));
    }
    Figure {
        key,
        label,
        whole: tidy(whole),
        factor,
        records: found.records,
        observations,
        drawn,
        left_out: found.left_out,
        bin_seconds: found.bin.seconds(),
        cells,
        lane_seconds: found.lane_bin.seconds(),
        lanes,
    }
}
