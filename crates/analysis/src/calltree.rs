//! Call trees: from the outermost functions down to their callees, or from functions up to their callers.
//!
//! With a filter on functions the tree starts at the chosen frames. Direct recursion is folded into one level. Every sample
//! counts once: downwards from the outermost chosen frame of its stack, upwards from the innermost.
//! What not: columns and pruning for display (`report`).

use std::collections::BTreeSet;

use crate::profile::{Cell, Profile};
use crate::selection::Selection;
use crate::stack::{FunctionId, LocationId};
use crate::weight::Weight;
use base::IndexMap;

/// Levels below a root that are kept; what lies deeper stays in the totals of its ancestors.
const MAX_LEVELS: usize = 256;

/// Which way the tree grows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// Roots are functions, children their callers.
    Callers,
    /// Roots are outermost (or chosen) functions, children what they call.
    Callees,
}

/// One node, in the order in which it is printed: parents before children, heavy children first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CallRow {
    /// 0 for a root.
    pub level: usize,
    /// The function.
    pub function: FunctionId,
    /// Where in it the heaviest stack passes: the line of the call, or the line that was executed.
    pub place: LocationId,
    /// Time of the samples that pass through this node.
    pub total_time: Weight,
    /// Time of the samples whose innermost frame is this node. In a tree of callers a node is only ever passed
    /// through, so only roots have it.
    pub self_time: Weight,
}

/// A tree as rows.
pub struct CallTree {
    /// The rows.
    pub rows: Vec<CallRow>,
    /// Samples in the tree.
    pub selected: Weight,
    /// Nodes left out because they are smaller than the limit, with all their descendants.
    pub pruned: usize,
}

#[derive(Default)]
struct Node {
    children: Vec<usize>,
    total_time: Weight,
    self_time: Weight,
    place: Option<(u64, LocationId)>,
}

struct Tree {
    nodes: Vec<(FunctionId, Node)>,
    roots: Vec<usize>,
    known: IndexMap<(Option<usize>, FunctionId), usize>,
}

/// Builds the tree. Nodes below `smallest_share` (0..=1) of all samples are left out.
#[must_use]
pub fn call_tree(
    profile: &Profile<'_>,
    selection: &Selection,
    direction: Direction,
    smallest_share: f64,
) -> CallTree {
    let mut tree = Tree { nodes: Vec::new(), roots: Vec::new(), known: IndexMap::default() };
    let mut selected = Weight::default();
    let mut path = Vec::new();
    let smallest = smallest_share * profile.whole().amount() as f64;
    let cells = profile.cells(selection);
    // Most functions are below the limit; their trees would be built only to be thrown away.
    let roots = (direction == Direction::Callers).then(|| own_times(profile, selection, &cells));
    let mut small = BTreeSet::new();
    for cell in cells {
        path.clear();
        path.extend(profile.stacks.frames(cell.stack));
        let Some((range, own)) = chosen_part(&path, selection, direction) else { continue };
        selected.merge(&cell.weight);
        let part = &path[range];
        if let (Some(roots), Some(first)) = (&roots, part.first()) {
            let function = profile.stacks.places[first.index()].function;
            if (roots.get(&function).copied().unwrap_or(0) as f64) < smallest {
                small.insert(function);
                continue;
            }
        }
        match direction {
            Direction::Callers => tree.add(profile, &cell, direction, part.iter().copied(), own),
            Direction::Callees => {
                tree.add(profile, &cell, direction, part.iter().rev().copied(), own)
            }
        }
    }
    let (rows, pruned) = tree.rows(profile, smallest);
    CallTree { rows, selected, pruned: pruned + small.len() }
}

/// Time per root of a tree of callers.
fn own_times(
    profile: &Profile<'_>,
    selection: &Selection,
    cells: &[Cell],
) -> IndexMap<FunctionId, u64> {
    let mut times: IndexMap<FunctionId, u64> = IndexMap::default();
    for cell in cells {
        let root = profile.stacks.frames(cell.stack).find(|place| selection.has_place(*place));
        if let Some(root) = root {
            let time = times.entry(profile.stacks.places[root.index()].function).or_default();
            *time = time.saturating_add(cell.weight.amount());
        }
    }
    times
}

/// The part of a stack (innermost first) that goes into the tree, and whether its innermost frame is the sample's.
fn chosen_part(
    path: &[LocationId],
    selection: &Selection,
    direction: Direction,
) -> Option<(std::ops::Range<usize>, bool)> {
    let chosen = |place: &LocationId| selection.has_place(*place);
    match direction {
        Direction::Callers => {
            let start = path.iter().position(chosen)?;
            Some((start..path.len(), start == 0))
        }
        Direction::Callees => {
            let outermost = path.iter().rposition(chosen)?;
            Some((0..outermost + 1, true))
        }
    }
}

impl Tree {
    /// Adds one path from its root on. `own`: the sample's innermost frame is part of it.
    fn add(
        &mut self,
        profile: &Profile<'_>,
        cell: &Cell,
        direction: Direction,
        path: impl Iterator<Item = LocationId>,
        own: bool,
    ) {
        let mut at: Option<usize> = None;
        let mut root = None;
        let mut levels = 0;
        for place in path {
            let function = profile.stacks.places[place.index()].function;
            if at.is_some_and(|at| self.nodes[at].0 == function) {
                continue;
            }
            levels += 1;
            if levels > MAX_LEVELS {
                break;
            }
            let next = self.child(at, function);
            root = root.or(Some(next));
            at = Some(next);
            let node = &mut self.nodes[next].1;
            node.total_time.merge(&cell.weight);
            if node.place.is_none_or(|(weight, _)| weight < cell.weight.amount()) {
                node.place = Some((cell.weight.amount(), place));
            }
        }
        let owner = match direction {
            Direction::Callers => root,
            Direction::Callees => at,
        };
        if let (true, Some(owner)) = (own, owner) {
            self.nodes[owner].1.self_time.merge(&cell.weight);
        }
    }

    fn child(&mut self, parent: Option<usize>, function: FunctionId) -> usize {
        if let Some(&known) = self.known.get(&(parent, function)) {
            return known;
        }
        self.nodes.push((function, Node::default()));
        let id = self.nodes.len() - 1;
        self.known.insert((parent, function), id);
        match parent {
            Some(parent) => self.nodes[parent].1.children.push(id),
            None => self.roots.push(id),
        }
        id
    }

    fn rows(mut self, profile: &Profile<'_>, smallest: f64) -> (Vec<CallRow>, usize) {
        let mut rows = Vec::new();
        let mut pruned = 0;
        let mut pending: Vec<(usize, usize)> = Vec::new();
        let roots = std::mem::take(&mut self.roots);
        self.push_sorted(profile, roots, 0, &mut pending);
        while let Some((id, level)) = pending.pop() {
            let (function, node) = &self.nodes[id];
            if (node.total_time.amount() as f64) < smallest {
                pruned += 1;
                continue;
            }
            rows.push(CallRow {
                level,
                function: *function,
                place: node.place.map_or(crate::stack::NO_STACK, |place| place.1),
                total_time: node.total_time,
                self_time: node.self_time,
            });
            let children = node.children.clone();
            self.push_sorted(profile, children, level + 1, &mut pending);
        }
        (rows, pruned)
    }

    /// Pushes so that the heaviest is popped first; equal ones by name.
    fn push_sorted(
        &self,
        profile: &Profile<'_>,
        mut ids: Vec<usize>,
        level: usize,
        pending: &mut Vec<(usize, usize)>,
    ) {
        let name = |id: usize| &profile.stacks.functions[self.nodes[id].0.index()].name;
        ids.sort_by(|&a, &b| {
            let amount = |id: usize| self.nodes[id].1.total_time.amount();
            amount(a).cmp(&amount(b)).then_with(|| name(b).cmp(name(a))).then(b.cmp(&a))
        });
        pending.extend(ids.into_iter().map(|id| (id, level)));
    }
}
