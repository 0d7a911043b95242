//! Figures per call stack, thread and coarse bin of time, small enough for a page that filters on its own.
//!
//! What for: one tree of call stacks with inlined frames, and cells that say how much of a figure belongs to a node of it, a thread
//! and a bin. Bottom-up, top-down and flame graphs, and any grouping by function, line, module or thread, are sums of cells.
//! What not: intervals; they need the number of observations behind a sum, which each figure states.
//!
//! Bounded: at most [`MOST_CELLS`] cells per figure, whatever the recording holds. Bins of time are made as wide as that needs. If
//! that is not enough, threads are merged; then the smallest cells are left out, and their sum is stated. Lanes, which are sums
//! over all stacks, keep the finest bins and all amounts.

use std::collections::HashMap;

use base::{IndexMap, Nanos, Pid, RemoteAddr};
use estimate::interval::effective_count;
use facts::Privilege;

use crate::objects::{Objects, weight};
use crate::profile::Profile;
use crate::selection::{RegionParts, Selection};
use crate::stack::{LocationId, NO_STACK, NodeIndex};
use crate::threads::ThreadIndex;

/// Cells per figure: about 1 MB of JSON.
const MOST_CELLS: usize = 25_000;
/// Bins of time, if there is room for them.
const MOST_BINS: u32 = 128;
/// Frames of a stack that are kept, from the outermost on.
const DEEPEST: usize = 512;

/// What a cell counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StackFigure {
    /// CPU time, nanoseconds.
    CpuTime,
    /// Page faults.
    PageFaults,
    /// Heap blocks allocated.
    Allocations,
    /// Bytes of heap blocks allocated.
    AllocatedBytes,
}

/// A node of the tree: a frame, called from its parent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StackTreeNode {
    /// Position of the caller, always before this; `None` for an outermost frame.
    pub parent: Option<u32>,
    /// Function and line.
    pub place: LocationId,
}

/// An amount at a node, in a thread, in a bin.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct StackCell {
    /// Position in the tree.
    pub node: u32,
    /// The thread; `None` where there are too many stacks to distinguish threads.
    pub thread: Option<ThreadIndex>,
    /// When: number of the bin.
    pub bin: u32,
    /// Whether the CPU was in the kernel; only CPU time has this.
    pub kernel: bool,
    /// The part of the selection: its position among those that were asked for.
    pub part: Option<u32>,
    /// How much, in the unit of the figure.
    pub amount: f64,
}

/// An amount of a thread in a bin, over all stacks.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LaneCell {
    /// Who.
    pub thread: ThreadIndex,
    /// When: number of the bin of lanes.
    pub bin: u32,
    /// Whether the CPU was in the kernel.
    pub kernel: bool,
    /// How much, in the unit of the figure.
    pub amount: f64,
}

/// The observations that the figure of a whole recording comes from.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Observed {
    /// Sum of all amounts.
    pub amount: f64,
    /// How many equally weighted observations carry as much information.
    pub effective: f64,
    /// Each of them stands for itself alone.
    pub alone: bool,
    /// Sum of the amounts of those that stand for themselves alone.
    pub sure: f64,
    /// As `effective`, of those that stand for others as well.
    pub drawn: f64,
}

impl Observed {
    fn by(pass: &Pass<'_>) -> Observed {
        // Sums of amounts, and of their squares: of those that stand for themselves alone, and of the others.
        let mut sums = [(0.0, 0.0); 2];
        let mut alone = true;
        pass(&mut |one| {
            let is_drawn = one.weight != 1.0;
            alone &= !is_drawn;
            let (amount, squares) = &mut sums[usize::from(is_drawn)];
            *amount += one.amount;
            *squares += one.amount * one.amount;
        });
        let [(sure, of_sure), (drawn, of_drawn)] = sums;
        let amount = sure + drawn;
        Observed {
            amount,
            effective: effective_count(amount, of_sure + of_drawn),
            alone,
            sure,
            drawn: effective_count(drawn, of_drawn),
        }
    }
}

/// The cells of one figure.
#[derive(Clone, PartialEq, Debug)]
pub struct FigureCells {
    /// The figure that the cells are of.
    pub figure: StackFigure,
    /// The cells, by node, thread and bin.
    pub cells: Vec<StackCell>,
    /// How many observations they come from.
    pub records: u64,
    /// All observations of the recording, whatever is selected.
    pub all: Observed,
    /// Sum of all observations, those of cells left out included.
    pub whole: f64,
    /// Sum of the cells that were left out.
    pub left_out: f64,
    /// Length of a bin.
    pub bin: Nanos,
    /// Sums over all stacks, by thread and bin.
    pub lanes: Vec<LaneCell>,
    /// Length of a bin of lanes.
    pub lane_bin: Nanos,
}

/// The tree and the figures.
#[derive(Clone, PartialEq, Debug)]
pub struct StackCells {
    /// Parents before children.
    pub nodes: Vec<StackTreeNode>,
    /// Figures of which anything was observed.
    pub figures: Vec<FigureCells>,
}

/// One observation before it is summed up.
struct Observation {
    time: Nanos,
    thread: ThreadIndex,
    stack: Option<NodeIndex>,
    kernel: bool,
    amount: f64,
    /// How much of the program it stands for.
    weight: f64,
    /// The address that it concerns, where that is recorded.
    memory: Option<(Pid, RemoteAddr)>,
    /// The part of the selection that it is in, where that was asked for.
    part: Option<u32>,
}

/// Passes every observation to its argument.
type Pass<'a> = dyn Fn(&mut dyn FnMut(Observation)) + 'a;

/// A cell before its stack is part of the tree.
type Key = (Option<NodeIndex>, Option<ThreadIndex>, u32, bool, Option<u32>);

/// Sums up the selected threads and time, and of the selected objects the page faults and blocks; samples of CPU time do
/// not say which memory was used, so there are none of an object. `regions`: the selection divided, each cell is of one part.
/// Linear in the size of the recording, and in the number of parts.
#[must_use]
pub fn stack_cells(
    profile: &Profile<'_>,
    objects: &Objects,
    selection: &Selection,
    regions: Option<&RegionParts>,
) -> StackCells {
    let part_of = |one: &Observation| {
        let parts = &regions?.parts;
        let at = parts.iter().position(|(_, part)| part.has(one.thread, one.time))?;
        u32::try_from(at).ok()
    };
    let of_object = |one: &Observation| {
        !selection.chooses_objects()
            || one.memory.is_some_and(|(pid, address)| {
                selection.has_object(objects.at(pid, address, one.time).0)
            })
    };
    let mut tree = Tree::default();
    let mut figures = Vec::new();
    let mut add = |figure, pass: &Pass<'_>| {
        let chosen = |take: &mut dyn FnMut(Observation)| {
            pass(&mut |one: Observation| {
                if selection.has(one.thread, one.time) && of_object(&one) {
                    take(Observation { part: part_of(&one), ..one });
                }
            });
        };
        let found = sum_up(profile, figure, &chosen, &mut tree);
        figures.extend(found.map(|found| FigureCells { all: Observed::by(pass), ..found }));
    };
    add(StackFigure::CpuTime, &|take| samples(profile).for_each(take));
    add(StackFigure::PageFaults, &|take| faults(profile).for_each(take));
    add(StackFigure::Allocations, &|take| blocks(profile, false).for_each(take));
    add(StackFigure::AllocatedBytes, &|take| blocks(profile, true).for_each(take));
    StackCells { nodes: tree.nodes, figures }
}

fn samples<'a>(profile: &'a Profile<'_>) -> impl Iterator<Item = Observation> + 'a {
    profile.recording.samples.iter().filter_map(|sample| {
        Some(Observation {
            time: sample.time,
            thread: profile.threads.find(sample.pid, sample.tid)?,
            stack: sample.stack.and_then(|id| profile.stacks.find(id)),
            kernel: sample.privilege == Privilege::Kernel,
            amount: sample.weight.0 as f64,
            weight: sample.weight.0 as f64,
            memory: None,
            part: None,
        })
    })
}

fn faults<'a>(profile: &'a Profile<'_>) -> impl Iterator<Item = Observation> + 'a {
    profile.recording.faults.iter().filter_map(|fault| {
        Some(Observation {
            time: fault.time,
            thread: profile.threads.find(fault.pid, fault.tid)?,
            stack: fault.stack.and_then(|id| profile.stacks.find(id)),
            kernel: false,
            amount: fault.weight as f64,
            weight: fault.weight as f64,
            memory: Some((fault.pid, fault.address)),
            part: None,
        })
    })
}

/// Blocks drawn at random represent others: the weights are those of the view `allocations`.
fn blocks<'a>(profile: &'a Profile<'_>, bytes: bool) -> impl Iterator<Item = Observation> + 'a {
    profile.recording.allocations.iter().filter_map(move |block| {
        let size = if bytes { block.size.0 as f64 } else { 1.0 };
        Some(Observation {
            time: block.time,
            thread: profile.threads.find(block.pid, block.tid)?,
            stack: block.stack.and_then(|id| profile.stacks.find(id)),
            kernel: false,
            amount: size * weight(block),
            weight: weight(block),
            memory: Some((block.pid, block.address)),
            part: None,
        })
    })
}

/// Width of a bin when the recording is cut into `bins`; a recording without a length has one.
fn width(profile: &Profile<'_>, bins: u32) -> Nanos {
    Nanos(profile.elapsed().0.div_ceil(u64::from(bins)).max(1))
}

/// The bin of a time. Facts a little after the end (the clock is read last) go into the last bin.
fn bin_of(time: Nanos, width: Nanos, bins: u32) -> u32 {
    u32::try_from(time.0 / width.0).unwrap_or(u32::MAX).min(bins - 1)
}

/// `pass` goes through all observations; it is asked twice, to learn how many cells there are before they are made.
fn sum_up(
    profile: &Profile<'_>,
    figure: StackFigure,
    pass: &Pass<'_>,
    tree: &mut Tree,
) -> Option<FigureCells> {
    let lane_bin = width(profile, MOST_BINS);
    let mut lanes: IndexMap<(ThreadIndex, u32, bool), f64> = IndexMap::default();
    let mut rows: IndexMap<(Option<NodeIndex>, ThreadIndex, bool, Option<u32>), ()> =
        IndexMap::default();
    let mut records = 0;
    pass(&mut |one| {
        let at = bin_of(one.time, lane_bin, MOST_BINS);
        *lanes.entry((one.thread, at, one.kernel)).or_default() += one.amount;
        // Too many are too many, however many: nine samples in ten of a long recording need no look into the map.
        if rows.len() <= MOST_CELLS {
            rows.insert((one.stack, one.thread, one.kernel, one.part), ());
        }
        records += 1;
    });
    if records == 0 {
        return None;
    }
    let mut bins = MOST_BINS;
    while bins > 1 && rows.len().saturating_mul(bins as usize).min(records as usize) > MOST_CELLS {
        bins /= 2;
    }
    let bin = width(profile, bins);
    let by_thread = rows.len() <= MOST_CELLS;
    let mut sums: IndexMap<Key, f64> = IndexMap::default();
    pass(&mut |one| {
        let at = bin_of(one.time, bin, bins);
        let thread = by_thread.then_some(one.thread);
        *sums.entry((one.stack, thread, at, one.kernel, one.part)).or_default() += one.amount;
    });
    let mut cells: Vec<(Key, f64)> = sums.into_iter().collect();
    // A fixed order, so that sums of floats do not depend on that of the map.
    cells.sort_by(|(a, left), (b, right)| right.total_cmp(left).then(a.cmp(b)));
    let whole = cells.iter().map(|(_, amount)| amount).sum();
    let left_out = cells.iter().skip(MOST_CELLS).map(|(_, amount)| amount).sum();
    cells.truncate(MOST_CELLS);
    let cell = |((stack, thread, bin, kernel, part), amount): (Key, f64)| StackCell {
        node: tree.node(profile, stack),
        thread,
        bin,
        kernel,
        part,
        amount,
    };
    let mut cells: Vec<StackCell> = cells.into_iter().map(cell).collect();
    cells.sort_by_key(|cell| (cell.node, cell.thread, cell.bin, cell.kernel, cell.part));
    let lane = |((thread, bin, kernel), amount)| LaneCell { thread, bin, kernel, amount };
    let mut lanes: Vec<LaneCell> = lanes.into_iter().map(lane).collect();
    lanes.sort_by_key(|cell| (cell.thread, cell.bin, cell.kernel));
    let all = Observed::default();
    Some(FigureCells { figure, cells, records, all, whole, left_out, bin, lanes, lane_bin })
}

/// The tree while it grows.
#[derive(Default)]
pub(crate) struct Tree {
    pub(crate) nodes: Vec<StackTreeNode>,
    children: HashMap<(Option<u32>, LocationId), u32>,
    known: HashMap<Option<NodeIndex>, u32>,
}

impl Tree {
    /// The node of a stack's innermost frame.
    pub(crate) fn node(&mut self, profile: &Profile<'_>, stack: Option<NodeIndex>) -> u32 {
        if let Some(&known) = self.known.get(&stack) {
            return known;
        }
        let frames: Vec<LocationId> = profile.stacks.frames(stack).collect();
        let mut at = None;
        for &place in frames.iter().rev().take(DEEPEST) {
            at = Some(self.child(at, place));
        }
        let node = at.unwrap_or_else(|| self.child(None, NO_STACK));
        self.known.insert(stack, node);
        node
    }

    fn child(&mut self, parent: Option<u32>, place: LocationId) -> u32 {
        let nodes = &mut self.nodes;
        *self.children.entry((parent, place)).or_insert_with(|| {
            nodes.push(StackTreeNode { parent, place });
            // MOST_CELLS stacks of DEEPEST frames per figure stay far below 2^32.
            u32::try_from(nodes.len() - 1).unwrap_or(u32::MAX)
        })
    }
}
